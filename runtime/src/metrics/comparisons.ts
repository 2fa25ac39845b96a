/** What comparing copies in stores with the lake has found, as metrics of this process. */
import { Counter, type Registry } from 'prom-client'
import { ENDPOINT_TYPES } from '../registry/load.ts'

const ENDS = ['in_order', 'drifted', 'unsteady', 'later', 'lost', 'moved', 'failed'] as const

/** Returns what counts the comparisons that have ended in this process. */
export function comparisonMetrics(registry: Registry): (endpoint: string, end: (typeof ENDS)[number]) => void {
  const compared = new Counter({
    name: 'sluice_store_comparisons_total',
    help: 'Copies in stores that this process compared with the lake, by what was found; drifted ones are written anew.',
    labelNames: ['type', 'found'],
    registers: [registry],
  })
  for (const type of ENDPOINT_TYPES) for (const found of ENDS) compared.inc({ type, found }, 0)
  return (type, found) => compared.inc({ type, found })
}
