import type { ChangesDeps } from '../changes/deps.ts'
import type { ProductsDeps } from '../products/deps.ts'

/** What the operations of `webhooks` work with, and those that they call. */
export type WebhooksDeps = ChangesDeps & ProductsDeps
