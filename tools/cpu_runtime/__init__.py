"""What lets stock SGLang start on a machine without a GPU, and the environment it does so in."""
