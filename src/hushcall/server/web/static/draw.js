// Draws odds and bits in SVG and text, without style attributes, which the content policy forbids.

const SVG = "http://www.w3.org/2000/svg";
const MAX_COLUMNS = 64;

/** An HTML element with attributes and children. */
export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function shape(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/** A row of bits, which highlights those that differ from `before`. A screen reader reads them as one word. */
export function bitRow(target, bits, before = bits) {
  const cells = [...bits].map((bit, place) => {
    const changed = bit === before[place] ? {} : { "data-changed": "" };
    return element("span", { "data-bit": bit, "aria-hidden": "true", ...changed }, bit);
  });
  target.replaceChildren(element("span", { class: "unseen" }, `bits ${bits}`), ...cells);
}

/** A roll from 0 to 1. Left of `border` the true value is sent, right of it another one. */
export function coin(target, border, roll) {
  const at = 1000 * roll;
  const needle = { x1: at, x2: at, y1: -6, y2: 46, class: "needle", "vector-effect": "non-scaling-stroke" };
  target.replaceChildren(
    shape(
      "svg",
      { viewBox: "0 0 1000 40", preserveAspectRatio: "none", "aria-hidden": "true" },
      shape("rect", { x: 0, y: 4, width: 1000 * border - 2, height: 32, class: "keep" }),
      shape("rect", { x: 1000 * border + 2, y: 4, width: 1000 * (1 - border) - 2, height: 32, class: "lie" }),
      shape("line", needle),
      shape("line", needle),
    ),
  );
}

/** The values to draw, ascending: all of them, or the important ones among evenly spread others. */
export function columnsOf(size, important) {
  if (size <= MAX_COLUMNS) return Array.from({ length: size }, (_, value) => value);
  const chosen = new Set(important);
  for (let place = 0; chosen.size < MAX_COLUMNS; place++) {
    chosen.add(Math.floor((place * size) / MAX_COLUMNS) % size);
  }
  return [...chosen].sort((a, b) => a - b);
}

/** Two sets of odds in percent, one upwards and one downwards. `columns` are {mine, theirs, sent}. */
export function mirror(target, columns) {
  const highest = Math.max(...columns.flatMap(({ mine, theirs }) => [mine, theirs]));
  const width = 1000 / columns.length;
  const bar = (place, percent, kind) => {
    const height = Math.max((115 * percent) / highest, 1.5);
    const y = kind === "mine" ? 119 - height : 121;
    return shape("rect", { x: place * width + width * 0.15, y, width: width * 0.7, height, class: kind });
  };
  const band = (place) => shape("rect", { x: place * width, y: 0, width, height: 240, class: "sent" });
  target.replaceChildren(
    shape(
      "svg",
      { viewBox: "0 0 1000 240", preserveAspectRatio: "none", "aria-hidden": "true" },
      ...columns.flatMap(({ sent }, place) => (sent ? [band(place)] : [])),
      shape("line", { x1: 0, x2: 1000, y1: 120, y2: 120, class: "zero", "vector-effect": "non-scaling-stroke" }),
      ...columns.flatMap(({ mine, theirs }, place) => [bar(place, mine, "mine"), bar(place, theirs, "theirs")]),
    ),
  );
}
