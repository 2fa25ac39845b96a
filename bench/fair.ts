/**
 * What one tenant feels of another: its reads alone, and while the other one reads 1000 rows at a time over 64
 * connections. `node bench/fair.ts --rows 100000`.
 */
import autocannon from 'autocannon'
import { issueToken } from '../runtime/src/auth/embedded-issuer.ts'
import { call, connectSource, deploy, flag, register, startBench, sync } from './setup.ts'

const rows = Number(flag('rows') ?? 100_000)
const seconds = Number(flag('seconds') ?? 8)
const LOUD_CONNECTIONS = 64
const ENDPOINTS = '  - type: lookup\n    config: { index_columns: [id, city] }\n'

interface Felt {
  readonly p50: number
  readonly p99: number
  readonly perS: number
}

async function load(url: string, token: string, query: string, connections: number): Promise<Felt> {
  const { latency, requests, non2xx } = await autocannon({
    url: `${url}/api/v1/products/bench.measured/latest?${query}`,
    connections,
    duration: seconds,
    headers: { authorization: `Bearer ${token}` },
  })
  if (non2xx > 0) throw new Error(`${non2xx} answers were no 2xx`)
  return { p50: latency.p50, p99: latency.p99, perS: requests.average }
}

const bench = await startBench(rows)
try {
  const dataDirectory = `${bench.folder}/data`
  const admin = await issueToken(dataDirectory, { role: 'admin' }, { ttlS: 36_000 })
  await call(bench.url, admin, 'POST', '/api/v1/tenants', { slug: 'quiet', display_name: 'Quiet', tier: 'enterprise' })
  const subject = { tenant: 'quiet', groups: ['svc-developers'], user: 'quiet' }
  const token = await issueToken(dataDirectory, subject, { ttlS: 36_000 })
  const quiet = {
    ...bench,
    token,
    call: (method: string, path: string, body?: unknown) => call(bench.url, token, method, path, body),
  }
  for (const one of [bench, quiet]) {
    await connectSource(one)
    await register(one)
    await deploy(one, '1.0.0', ENDPOINTS)
    await sync(one)
  }
  const read = () => load(bench.url, token, 'filter=city:city%207&limit=50', 1)
  await read()
  const alone = await read()
  const loud = load(bench.url, bench.token, 'limit=1000', LOUD_CONNECTIONS)
  const beside = await read()
  const other = await loud
  const shown = ({ p50, p99, perS }: Felt) => `p50 ${p50} ms, p99 ${p99} ms, ${Math.round(perS)}/s`
  console.log(`alone                       ${shown(alone)}`)
  console.log(`beside ${LOUD_CONNECTIONS} connections        ${shown(beside)}`)
  console.log(`the other one               ${shown(other)}`)
} finally {
  await bench.stop()
}
