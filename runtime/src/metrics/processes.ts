/** The metrics of several processes as those of one server, and of these processes. */
import { Counter, Gauge, type Registry } from 'prom-client'

/**
 * One text in Prometheus's format of several. What is told of a metric stands once, before all of its samples; these carry
 * the number of their process as a label, so that a process that is started anew counts from nothing for itself alone.
 */
export function mergedScrapes(texts: readonly string[]): string {
  const samples = new Map<string, string[]>()
  for (const block of texts.flatMap((text) => text.split('\n\n'))) {
    const lines = block.split('\n').filter((line) => line !== '')
    const head = lines.filter((line) => line.startsWith('#')).join('\n')
    if (head === '') continue
    samples.set(head, [...(samples.get(head) ?? []), ...lines.filter((line) => !line.startsWith('#'))])
  }
  return [...samples]
    .map(([head, lines]) => [head, ...lines].join('\n'))
    .join('\n\n')
    .concat('\n')
}

/** @param further those beside the first one */
export function processMetrics(
  registry: Registry,
  further: { readonly serving: number; readonly restarts: number },
): void {
  new Gauge({
    name: 'sluice_http_processes',
    help: 'Processes that answer HTTP now.',
    registers: [registry],
    collect() {
      this.set(further.serving + 1)
    },
  })
  new Counter({
    name: 'sluice_http_process_restarts_total',
    help: 'Processes that answered HTTP, ended by themselves, and were started anew.',
    registers: [registry],
    collect() {
      this.reset()
      this.inc(further.restarts)
    },
  })
}
