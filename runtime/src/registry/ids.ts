import { randomBytes } from 'node:crypto'

/** What the opaque ids of the API begin with, so that one kind is not taken for another in a log. */
export type IdPrefix =
  | 'con'
  | 'prd'
  | 'dep'
  | 'run'
  | 'mat'
  | 'grt'
  | 'rgt'
  | 'idk'
  | 'evt'
  | 'key'
  | 'qrn'
  | 'ntf'
  | 'inc'
  | 'exp'
  | 'whk'
  | 'ltr'
  | 'svp'
  | 'era'

/** Opaque, unguessable, unique: 96 random bits. */
export function newId(prefix: IdPrefix): string {
  return `${prefix}_${randomBytes(12).toString('hex')}`
}

export function isId(text: string, prefix: IdPrefix): boolean {
  return text.startsWith(`${prefix}_`) && /^[0-9a-f]{24}$/.test(text.slice(prefix.length + 1))
}
