import type { ProductsDeps } from '../products/deps.ts'

/** What the operations of `lineage` work with, and those that they call. */
export type LineageDeps = ProductsDeps
