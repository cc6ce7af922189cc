// Errors with the names and the form of hushcall.errors.

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

/** Checks a whole number. */
export function whole(field, value, min, max) {
  if (!Number.isSafeInteger(value) || value < min || value > max) {
    throw new InvalidParameter(field, `be a whole number of at least ${min} and at most ${max}`, value);
  }
}

/** Checks the length of bytes. */
export function length(field, value, size) {
  if (!(value instanceof Uint8Array) || value.length !== size) {
    throw new InvalidParameter(field, `be exactly ${size} bytes`, `${value?.length} bytes`);
  }
}
