import type { ConnectionsDeps } from '../connections/deps.ts'

/** What the operations of `erasures` work with, and those that they call. */
export type ErasuresDeps = ConnectionsDeps
