// Every error that the page's modules raise on purpose: the names and the form are those of hushcall.errors.

class Violation extends Error {
  constructor(field, rule, value) {
    super(`${field} must ${rule}, got ${value}`);
    this.name = this.constructor.name;
    this.rule = rule;
  }
}

export class InvalidParameter extends Violation {}
export class InvalidNumber extends Violation {}
export class InvalidList extends Violation {}
export class WrongLength extends Violation {}
export class WrongVersion extends Violation {}
export class WrongMechanism extends Violation {}
export class WrongSymbol extends Violation {}

/** `value` is a whole number from `least` to `most`. */
export function whole(field, value, least, most) {
  if (!Number.isSafeInteger(value) || value < least || value > most) {
    throw new InvalidParameter(field, `be a whole number of at least ${least} and at most ${most}`, value);
  }
}

/** `value` is exactly `size` bytes. */
export function length(field, value, size) {
  if (!(value instanceof Uint8Array) || value.length !== size) {
    throw new InvalidParameter(field, `be exactly ${size} bytes`, `${value?.length} bytes`);
  }
}
