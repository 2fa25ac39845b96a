/**
 * Measures how soon a commit at the source can be read in the lookup store, with a schedule that is continuous:
 * `node bench/continuous.ts --rows 200000 --changes 1000 --seconds 60 --max-delay 200ms`. Writers put the source's clock into the
 * rows that they change; a reader asks the lookup for rows by key and holds what it reads against that clock. Then nothing is
 * written, and processor time and runs of the idle runtime are counted.
 */
import { connect, connectSource, deploy, flag, processorS, register, startBench, sync } from './setup.ts'

const rows = Number(flag('rows') ?? 200_000)
const changes = Number(flag('changes') ?? 1_000)
const seconds = Number(flag('seconds') ?? 60)
const maxDelay = flag('max-delay') ?? '1s'
const WARM_S = 10
const BATCHES_A_SECOND = 20
/** The key whose age is looked at: it is changed with every batch. */
const WATCHED = 4711

const bench = await startBench(rows, { wal_level: 'logical', max_wal_senders: '4', max_replication_slots: '4' })
try {
  await connectSource(bench)
  await register(bench)
  await deploy(bench, '1.0.0', '  - type: lookup\n', 'measured', 'cdc')
  await sync(bench)
  await bench.call('PATCH', '/api/v1/connections/source', { schedule: { continuous: { max_delay: maxDelay } } })
  const writer = await connect(bench.source)
  const begunMs = Date.now()
  let written = 0
  const writing = (async () => {
    const each = Math.max(1, Math.round(changes / BATCHES_A_SECOND))
    for (let batch = 0; Date.now() < begunMs + (WARM_S + seconds) * 1000; batch += 1) {
      await writer.query(
        'UPDATE measured SET updated_at = clock_timestamp() WHERE id = $1 OR id IN (SELECT 1 + (random() * $2)::int FROM generate_series(2, $3))',
        [WATCHED, rows - 1, each],
      )
      written += each
      const leftMs = begunMs + ((batch + 1) * 1000) / BATCHES_A_SECOND - Date.now()
      if (leftMs > 0) await new Promise((resolve) => setTimeout(resolve, leftMs))
    }
  })()
  // Of each value that is seen, how long after its commit it was seen first: no newer one of the same epoch counts twice.
  const firstSeen: number[] = []
  const ages: number[] = []
  const epochs = new Set<unknown>()
  const before = await processorS(bench)
  for (let last = ''; Date.now() < begunMs + (WARM_S + seconds) * 1000; ) {
    const answer = await bench.call('GET', `/api/v1/products/measured/latest?filter=id:${WATCHED}`)
    const [row] = answer['data'] as readonly { readonly updated_at: string }[]
    const ageMs = Date.now() - Date.parse(row?.updated_at ?? '')
    // Before the first epoch of theirs, what is read is of before the writers.
    const isWritten = Date.parse(row?.updated_at ?? '') >= begunMs
    if (isWritten && Date.now() > begunMs + WARM_S * 1000) {
      ages.push(ageMs)
      if (row !== undefined && row.updated_at !== last) firstSeen.push(ageMs)
      epochs.add((answer['meta'] as { readonly epoch?: unknown } | undefined)?.epoch ?? answer['epoch'])
    }
    last = row?.updated_at ?? last
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await writing
  const busyS = (await processorS(bench)) - before
  const share = (sorted: readonly number[], part: number) =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]
  const tell = (all: readonly number[]) => {
    const sorted = all.toSorted((left, right) => left - right)
    return `p50 ${share(sorted, 0.5)} ms, p99 ${share(sorted, 0.99)} ms of ${sorted.length}`
  }
  console.log(`max_delay ${maxDelay}, ${rows} rows, ${Math.round(written / (WARM_S + seconds))} changes a second`)
  console.log(`commit until first readable: ${tell(firstSeen)}`)
  console.log(`age of what a read shows: ${tell(ages)}`)
  console.log(
    `epochs: ${epochs.size} in ${seconds} s; processor time ${(busyS / (WARM_S + seconds)).toFixed(2)} s a second`,
  )
  await new Promise((resolve) => setTimeout(resolve, 10_000))
  const idle = await processorS(bench)
  await new Promise((resolve) => setTimeout(resolve, 30_000))
  console.log(`idle, followed: ${(((await processorS(bench)) - idle) / 30).toFixed(3)} s of processor time a second`)
  await bench.call('PATCH', '/api/v1/connections/source', { schedule: null })
  await new Promise((resolve) => setTimeout(resolve, 10_000))
  const alone = await processorS(bench)
  await new Promise((resolve) => setTimeout(resolve, 30_000))
  console.log(`idle, without the schedule: ${(((await processorS(bench)) - alone) / 30).toFixed(3)} s a second`)
  await writer.end()
} finally {
  await bench.stop()
}
