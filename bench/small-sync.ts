/**
 * Measures how soon one changed row of many can be read, by each way of reading its source:
 * `node bench/small-sync.ts --rows 200000 --rounds 7`. A row is changed in the source, a sync is asked for, and the lookup is
 * asked until it has the row. Processor time is that of all of the runtime's processes until the run has ended.
 */
import { type Bench, connectSource, deploy, flag, processorS, register, startBench, sync } from './setup.ts'

const rows = Number(flag('rows') ?? 200_000)
const rounds = Number(flag('rounds') ?? 7)
const MODES: Readonly<Record<string, string>> = {
  incremental: 'incremental\n    cursor_column: updated_at\n    primary_key: [id]',
  cdc: 'cdc',
}
const modes = (flag('modes') ?? Object.keys(MODES).join(',')).split(',')
const ENDPOINTS = `  - type: lookup
  - type: timeseries
    config: { time_column: updated_at }
  - type: analytics
  - type: realtime
    config: { key_template: "{id}" }
`

interface Spent {
  readonly readableS: number
  readonly endedS: number
  readonly processorS: number
}

for (const mode of modes) {
  const bench = await startBench(rows, { wal_level: 'logical', max_wal_senders: '4', max_replication_slots: '4' })
  try {
    await connectSource(bench)
    await register(bench)
    await deploy(bench, '1.0.0', ENDPOINTS, 'measured', MODES[mode])
    await sync(bench)
    await spentBy(bench, 0)
    const spent: Spent[] = []
    for (let round = 1; round <= rounds; round += 1) spent.push(await spentBy(bench, round))
    const tell = (of: (one: Spent) => number) => {
      const sorted = spent.map(of).sort((left, right) => left - right)
      return `${(sorted[sorted.length >> 1] ?? 0).toFixed(2)} (${sorted.map((value) => value.toFixed(2)).join(' ')})`
    }
    console.log(
      `${mode}: readable after ${tell((one) => one.readableS)} s, run ended after ${tell((one) => one.endedS)} s`,
    )
    console.log(`${mode}: ${tell((one) => one.processorS)} s of processor time`)
  } finally {
    await bench.stop()
  }
}

async function spentBy(bench: Bench, round: number): Promise<Spent> {
  // What the former one has left behind is over.
  await new Promise((resolve) => setTimeout(resolve, 3000))
  const city = `moved ${round}`
  const before = await processorS(bench)
  await bench.client.query('UPDATE measured SET city = $1, updated_at = clock_timestamp() WHERE id = $2', [city, 4711])
  const begun = performance.now()
  const ended = sync(bench).then(() => (performance.now() - begun) / 1000)
  const readable = untilRead(bench, city).then(() => (performance.now() - begun) / 1000)
  const [endedS, readableS] = await Promise.all([ended, readable])
  await new Promise((resolve) => setTimeout(resolve, 500))
  return { readableS, endedS, processorS: (await processorS(bench)) - before }
}

async function untilRead(bench: Bench, city: string): Promise<void> {
  for (;;) {
    const answer = await bench.call('GET', '/api/v1/products/measured/latest?filter=id:4711')
    const [row] = answer['data'] as readonly { readonly city: string }[]
    if (row?.city === city) return
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
