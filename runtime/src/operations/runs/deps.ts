import type { ProductsDeps } from '../products/deps.ts'

/** What the operations of `runs` work with, and those that they call. */
export type RunsDeps = ProductsDeps
