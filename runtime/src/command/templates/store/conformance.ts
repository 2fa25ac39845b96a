/** What the suite needs to try this store: start it, restart it, end it. */
import { randomUUID } from 'node:crypto'
import type { Fixture } from '@sluice/conformance'

export async function start(): Promise<Fixture> {
  return { settings: { space: randomUUID() }, async restart() {}, async stop() {} }
}
