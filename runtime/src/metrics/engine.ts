/** What children of this process do: places for them, who waits for one, and the CPU time that they take. */

import type { PoolLoad } from '@sluice/engine'
import { Counter, Gauge, type Registry } from 'prom-client'
import { OWN_SERVICES } from '../config/services.ts'
import type { CpuProcess } from '../registry/cpu-accounts.ts'

const PROCESSES = ['engine', 'source'] as const
const labelNames = ['process'] as const

/** Counts CPU seconds. No label names a tenant: how many there are is not bounded, and what one uses is its own affair. */
export function cpuMetrics(registry: Registry): (process: CpuProcess, seconds: number) => void {
  const used = new Counter({
    name: 'sluice_cpu_seconds_total',
    help: 'CPU seconds of the processes that run statements (engine) and read sources (source), their starts included, and of tenants’ statements in an engine outside, by its name.',
    labelNames,
    registers: [registry],
  })
  for (const process of [...PROCESSES, ...Object.keys(OWN_SERVICES.compute)]) used.inc({ process }, 0)
  return (process, seconds) => used.inc({ process }, seconds)
}

export function slotMetrics(
  registry: Registry,
  loads: Readonly<Record<(typeof PROCESSES)[number], () => PoolLoad>>,
): void {
  const gauge = (name: string, help: string, of: (load: PoolLoad) => number) =>
    new Gauge({
      name,
      help,
      labelNames,
      registers: [registry],
      collect() {
        for (const process of PROCESSES) this.set({ process }, of(loads[process]()))
      },
    })
  gauge(
    'sluice_slots',
    'Processes that may be at work at once: for statements (engine), for sources (source).',
    (load) => load.slots,
  )
  gauge('sluice_slots_busy', 'Of these, those at work.', (load) => load.busy)
  gauge(
    'sluice_slots_waiting',
    'Statements, or connections to read, that wait for such a place.',
    (load) => load.waiting,
  )
}
