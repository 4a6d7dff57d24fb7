"""JavaScript that several widgets share."""

# A function that creates an element with properties and children.
NODE = """
const node = (name, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};
"""
