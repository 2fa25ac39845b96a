import { Counter, type Registry } from 'prom-client'

/** A counter of what somebody else counts from the start of this process on. */
export function runningTotal(registry: Registry, name: string, help: string, total: () => number): void {
  let told = 0
  new Counter({
    name,
    help,
    registers: [registry],
    collect() {
      const now = total()
      this.inc(now - told)
      told = now
    },
  })
}
