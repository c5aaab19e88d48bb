// Says what of the framed page is too wide, which labels of a drawing cover each other or are cut
// off, and which axes have no unit.
(() => {
  const frame = document.getElementById("page");
  const measured = document.getElementById("measured-by-the-test");
  const box = (element) => element.getBoundingClientRect();
  const SLACK = 1.0; // pixels

  const covers = (a, b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > SLACK &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > SLACK;

  const labelsOf = (svg) =>
    [...svg.querySelectorAll("text")].filter((text) => text.textContent.trim());

  function overlaps(svg) {
    const labels = labelsOf(svg);
    return labels.flatMap((one, at) =>
      labels
        .slice(at + 1)
        .filter((other) => covers(box(one), box(other)))
        .map((other) => [one.textContent, other.textContent]),
    );
  }

  function cut(svg) {
    const whole = box(svg);
    return labelsOf(svg)
      .filter((text) => {
        const its = box(text);
        return (
          its.left < whole.left - SLACK || its.right > whole.right + SLACK ||
          its.top < whole.top - SLACK || its.bottom > whole.bottom + SLACK
        );
      })
      .map((text) => text.textContent);
  }

  function measure() {
    const page = frame.contentDocument;
    const width = page.documentElement.clientWidth;
    const svgs = [...page.querySelectorAll("svg")];
    const wide = [...page.querySelectorAll("body *")]
      .filter((element) => box(element).right > width + SLACK && !element.closest("svg svg, svg *"))
      .map((element) => `${element.tagName}: ${element.textContent.trim().slice(0, 40)}`);
    return {
      width,
      scrollWidth: page.documentElement.scrollWidth,
      wide,
      drawings: svgs.length,
      overlaps: svgs.flatMap(overlaps),
      cut: svgs.flatMap(cut),
      axes: svgs.map((svg) =>
        [...svg.querySelectorAll('[id$="x-axis-label"], [id$="y-axis-label"]')].map((label) =>
          label.textContent.trim(),
        ),
      ),
      smallest: Math.min(...svgs.flatMap((svg) => labelsOf(svg).map((text) =>
        parseFloat(page.defaultView.getComputedStyle(text).fontSize) *
        (svg.getScreenCTM() ? svg.getScreenCTM().a : 1),
      ))),
      asked: page.defaultView.performance.getEntriesByType("resource").map((entry) => entry.name),
    };
  }

  frame.addEventListener("load", () => {
    measured.textContent = JSON.stringify(measure());
  });
})();
