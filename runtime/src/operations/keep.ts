import type { Transaction } from '../registry/sql.ts'

/**
 * Keeps what an operation answers in the transaction of its effect, so that a repeated request finds the answer
 * wherever it finds the effect.
 */
export type Keep<T> = (tx: Transaction, result: T) => Promise<void>
