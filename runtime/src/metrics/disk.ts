/** Room where the data folder lies: without any, nothing is written, and an embedded database ends. */
import { statfs } from 'node:fs/promises'
import { Gauge, type Registry } from 'prom-client'

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
