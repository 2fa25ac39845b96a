import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Counter, Gauge, Registry } from 'prom-client'
import { httpMetrics } from '../http/metrics.ts'
import { mergedScrapes } from './processes.ts'

/** What a process of that number tells after as many requests. */
async function told(process: number, requests: number, more: (registry: Registry) => void = () => undefined) {
  const registry = new Registry()
  registry.setDefaultLabels({ http_process: String(process) })
  const count = httpMetrics(registry)
  const request = { requestId: 'r', method: 'GET', route: '/a', status: 200, tenant: null, subject: null, bytes: 1 }
  for (let at = 0; at < requests; at += 1) count({ ...request, durationMs: 3 })
  more(registry)
  return registry.metrics()
}

test('each metric is told of once, with the samples of all processes by their numbers', async () => {
  const only = (registry: Registry) => {
    new Gauge({ name: 'runs', help: 'Of the first alone.', registers: [registry] }).set(4)
    new Counter({ name: 'empty_total', help: 'Without samples.', labelNames: ['of'], registers: [registry] })
  }
  const lines = mergedScrapes([await told(1, 2, only), await told(2, 3)]).split('\n')
  const heads = lines.filter((line) => line.startsWith('#'))
  assert.equal(new Set(heads).size, heads.length)
  const samples = (name: string) => lines.filter((line) => line.startsWith(`${name}{`))
  assert.deepEqual(samples('sluice_http_requests_total'), [
    'sluice_http_requests_total{method="GET",route="/a",status="200",http_process="1"} 2',
    'sluice_http_requests_total{method="GET",route="/a",status="200",http_process="2"} 3',
  ])
  assert.deepEqual(samples('runs'), ['runs{http_process="1"} 4'])
  assert.equal(samples('sluice_http_request_duration_seconds_count').length, 2)
  // What is told of a metric stands right before its samples.
  const at = lines.findIndex((line) => line.startsWith('sluice_http_requests_total{'))
  assert.match(lines[at - 1] ?? '', /^# TYPE sluice_http_requests_total counter$/)
  assert.equal(lines.at(-1), '')
})
