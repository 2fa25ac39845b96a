import type { Profile } from './distribution.ts'

/** What the epochs before have taught a check. */
export interface Taught {
  /** How many epochs. */
  readonly epochs: number
  /** Of those that have a value, oldest first. */
  readonly values: readonly number[]
  /** Of a drift: the newest ones, which these rows are compared with. */
  readonly profiles: readonly Profile[]
}

/** Since the first epoch of a product, or for rows that no epoch is made of. */
export const NOTHING: Taught = { epochs: 0, values: [], profiles: [] }
