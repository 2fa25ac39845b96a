import type { QueriesDeps } from '../queries/deps.ts'
import type { RunsDeps } from '../runs/deps.ts'

/** What the operations of `agents` work with, and those that they call. */
export type AgentsDeps = QueriesDeps & RunsDeps
