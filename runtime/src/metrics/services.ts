/** Whether servers beside the runtime answer, as a metric. */
import { SERVICE_KINDS } from '@sluice/sdk'
import { Gauge, type Registry } from 'prom-client'
import type { ServiceHealth } from '../plugins/service-health.ts'

export function serviceMetrics(registry: Registry, health: Pick<ServiceHealth, 'states'>): void {
  new Gauge({
    name: 'sluice_services_down',
    help: 'Servers beside the runtime that did not answer this process when it last asked them.',
    labelNames: ['kind'],
    registers: [registry],
    collect() {
      const down = health.states().filter(({ status }) => status === 'down')
      for (const kind of SERVICE_KINDS) this.set({ kind }, down.filter((one) => one.kind === kind).length)
    },
  })
}
