import { Counter, Histogram, type Registry } from 'prom-client'
import type { RequestReport } from './app.ts'

const BUCKETS_S = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/** Counts and times requests by route. Labels come from the route table, so their number is bounded. */
export function httpMetrics(registry: Registry): (report: RequestReport) => void {
  const requests = new Counter({
    name: 'sluice_http_requests_total',
    help: 'Requests answered, by route and status.',
    labelNames: ['method', 'route', 'status'],
    registers: [registry],
  })
  const durations = new Histogram({
    name: 'sluice_http_request_duration_seconds',
    help: 'Time from the first byte of a request to the last of its answer.',
    labelNames: ['method', 'route'],
    buckets: BUCKETS_S,
    registers: [registry],
  })
  return ({ method, route, status, durationMs }) => {
    const known = route === '' ? 'OTHER' : method
    requests.inc({ method: known, route, status })
    durations.observe({ method: known, route }, durationMs / 1000)
  }
}
