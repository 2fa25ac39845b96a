/** Room where the data folder lies: without any, nothing is written, and an embedded database ends. */
import { statfs } from 'node:fs/promises'
import { Gauge, type Registry } from 'prom-client'

/** Less than one run of a small product writes, with what the database keeps of it. */
const LEAST_ROOM_BYTES = 64 * 1024 * 1024

/** For readiness: whatever is there is served, and nothing new is written. Where the system does not tell, nothing is said. */
export async function roomOn(folder: string, ask: typeof statfs = statfs): Promise<Readonly<Record<string, unknown>>> {
  const found = await ask(folder).catch(() => null)
  if (found === null || found.bavail * found.bsize >= LEAST_ROOM_BYTES) return { state: 'ok' }
  return {
    state: 'degraded',
    message: 'the disk of the data folder is full: nothing is written until there is room on it',
  }
}

export function diskMetrics(registry: Registry, folder: string): void {
  const gauge = (name: string, help: string, blocks: 'blocks' | 'bavail'): void => {
    new Gauge({
      name,
      help,
      registers: [registry],
      async collect() {
        // Where the system does not tell, what it last told stays.
        const found = await statfs(folder).catch(() => null)
        if (found !== null) this.set(found[blocks] * found.bsize)
      },
    })
  }
  gauge('sluice_data_disk_bytes', 'Size of the file system where the data folder lies.', 'blocks')
  gauge('sluice_data_disk_free_bytes', 'What of it is free for the runtime.', 'bavail')
}
