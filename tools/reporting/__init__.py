"""Runs of servers as a page: tables, differences, drawings, and what was not measured.

========================  ===================================================================
module                    what lives there
========================  ===================================================================
``loading``               JSON that somebody else wrote, read strictly
``runs``                  runs, by experiment, by what is served and by configuration
``varied``                what the workloads of an experiment differ in
``restore``               restores against computing, as they were measured
``distortion``            the rate-distortion benchmark
``simulation``            the simulator's sweeps and its validation
``inputs``                all of these, as the command line names them
``measures``              what a run is judged by, with units
``spread``                repeats: medians, and which differences they tell apart
``looks``                 the line and mark of each configuration
``drawing``               what all drawings have in common, and their SVG
``hit_plot``              hit rate against what is varied
``simulation_plot``       the same, as it is simulated
``validation_plot``       what the engine hit against its simulation
``ttft_plot``             distributions of times to first token
``restore_plot``          time to first token against prefix length
``distortion_plot``       rate against distortion
``capacity_figure``       capacity against budget
``content``               a page before it is HTML or Markdown
``provenance``            section: where the figures come from
``reference``             section: the figures of the system that this one follows
``comparisons``           section: an experiment
``host_cache``            section: use of the L2, and evictions
``restore_section``       section: restores against computing
``format_sections``       sections: capacity, rate and distortion
``simulation_sections``   sections: the simulation, and how far it is from the engine
``unmeasured``            what was not measured, with the commands
``document``              the sections in order
``html_page``             a page as HTML (``page.css`` is its style)
``markdown_page``         a page as Markdown
``files``                 its files: written, or compared with what is there
``output``                the terminal and JSON
========================  ===================================================================
"""
