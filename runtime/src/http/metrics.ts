import { Counter, Histogram, type Registry } from 'prom-client'
import type { RequestReport } from './app.ts'

const BUCKETS_S: readonly number[] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

const NAME = 'sluice_http_request_duration_seconds'

interface RouteCounts {
  readonly method: string
  readonly route: string
  readonly byStatus: Map<number, number>
  /** Requests whose time falls into each bucket alone; the last one is above all bounds. */
  readonly buckets: number[]
  sumS: number
}

/**
 * Counts and times requests by route. Labels come from the route table, so their number is bounded. Requests only add
 * to plain numbers, which become metrics when they are asked for: labelling each request would cost a tenth of it.
 */
export function httpMetrics(registry: Registry): (report: RequestReport) => void {
  const counts: RouteCounts[] = []
  const byRoute = new Map<string, Map<string, RouteCounts>>()
  registerRequests(registry, counts)
  registry.registerMetric(new DurationHistogram(counts))
  return ({ method, route, status, durationMs }) => {
    const entry = byRoute.get(route)?.get(method) ?? addEntry(counts, byRoute, route, method)
    entry.byStatus.set(status, (entry.byStatus.get(status) ?? 0) + 1)
    const seconds = durationMs / 1000
    let bucket = 0
    while (bucket < BUCKETS_S.length && seconds > (BUCKETS_S[bucket] as number)) bucket++
    entry.buckets[bucket] = (entry.buckets[bucket] as number) + 1
    entry.sumS += seconds
  }
}

/** Methods of requests without a route are text of whoever sent them: they count as one. */
function addEntry(
  counts: RouteCounts[],
  byRoute: Map<string, Map<string, RouteCounts>>,
  route: string,
  method: string,
): RouteCounts {
  const known = byRoute.get(route) ?? new Map<string, RouteCounts>()
  const name = route === '' ? 'OTHER' : method
  let entry = known.get(name)
  if (entry === undefined) {
    const buckets = Array.from({ length: BUCKETS_S.length + 1 }, () => 0)
    entry = { method: name, route, byStatus: new Map(), buckets, sumS: 0 }
    counts.push(entry)
  }
  byRoute.set(route, known.set(name, entry))
  return entry
}

function registerRequests(registry: Registry, counts: readonly RouteCounts[]): void {
  new Counter({
    name: 'sluice_http_requests_total',
    help: 'Requests answered, by route and status.',
    labelNames: ['method', 'route', 'status'],
    registers: [registry],
    collect() {
      this.reset()
      for (const { method, route, byStatus } of counts) {
        for (const [status, count] of byStatus) this.inc({ method, route, status }, count)
      }
    },
  })
}

const SHAPE = {
  name: NAME,
  help: 'Time from the first byte of a request to the last of its answer.',
  labelNames: ['method', 'route'] as const,
  buckets: [...BUCKETS_S],
  registers: [],
}

type Durations = Histogram<'method' | 'route'>

/** A histogram whose buckets are counted elsewhere. */
class DurationHistogram extends Histogram<'method' | 'route'> {
  readonly #counts: readonly RouteCounts[]
  readonly #empty: Durations = new Histogram(SHAPE)

  constructor(counts: readonly RouteCounts[]) {
    super(SHAPE)
    this.#counts = counts
  }

  override async get(): ReturnType<Durations['get']> {
    return { ...(await this.#empty.get()), values: this.#counts.flatMap(valuesOf) }
  }

  /** What the registry asks when it writes the Prometheus format; the types of prom-client do not know it. */
  getForPromString(): ReturnType<Durations['get']> {
    return this.get()
  }
}

function valuesOf({ method, route, buckets, sumS }: RouteCounts) {
  let total = 0
  const values = buckets.map((count, index) => {
    total += count
    const le = BUCKETS_S[index] ?? '+Inf'
    return { metricName: `${NAME}_bucket`, labels: { le, method, route }, value: total }
  })
  const labels = { method, route }
  return [
    ...values,
    { metricName: `${NAME}_sum`, labels, value: sumS },
    { metricName: `${NAME}_count`, labels, value: total },
  ]
}
