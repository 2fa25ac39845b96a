import type { Fixture } from '../context.ts'
import { ReferenceMemory } from './memory.ts'

/** The memory is the server: it stays while stores on it come and go. */
export async function start(): Promise<Fixture> {
  const memory = new ReferenceMemory()
  const gone = new ReferenceMemory()
  gone.isReachable = false
  return {
    settings: { memory },
    invalid: [{ memory: {} }],
    unreachable: { memory: gone },
    bypassing: { memory, privileged: true },
    async restart() {},
    async stop() {},
  }
}
