import type { Fixture } from '../context.ts'
import { ReferenceMemory } from './memory.ts'

/** The memory is the server: it stays while stores on it come and go. */
export async function start(): Promise<Fixture> {
  return { settings: { memory: new ReferenceMemory() }, async restart() {}, async stop() {} }
}
