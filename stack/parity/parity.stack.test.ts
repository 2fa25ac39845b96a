/**
 * The same products on an embedded runtime, and on two runtimes with PostgreSQL, Redis, an S3 store and Trino: whatever is
 * read, the answers are equal; statements are asked in the dialect of each. `SLUICE_TEST_SEED` repeats a run.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import pg from 'pg'
import { type Deployment, openDeployment } from '../../acceptance/deployment.ts'
import { Random } from '../readers/random.ts'
import { Fleet, serversFromEnvironment } from '../several/fleet.ts'
import { Answers, type Compared } from './answers.ts'
import { ParityDeployment } from './deployments.ts'
import { generateReads, type Read } from './reads.ts'
import { createTables, Rows, TABLES } from './tables.ts'

const seed = Number(process.env['SLUICE_TEST_SEED'] ?? Date.now() % 1_000_000)
const STATES = 3
const ROWS_A_STATE = 40
const COUNTS = { lookups: 150, histories: 60, timeseries: 60, realtime: 80, statements: 70 }
/** Reads under way at once. */
const AT_ONCE = 4

let folder: string
let embedded: Deployment
let fleet: Fleet
let source: pg.Client
let sides: readonly [Answers, Answers]
let reads: readonly Read[]

before(async () => {
  console.log(`seed ${seed}`)
  folder = await mkdtemp(join(tmpdir(), 'sluice-parity-'))
  const trino = process.env['SLUICE_TEST_TRINO_URL'] as string
  fleet = await Fleet.start(folder, serversFromEnvironment(process.env), 2, { trino, isAnalyticsInTrino: true })
  embedded = await openDeployment()
  source = new pg.Client({ connectionString: fleet.source })
  await source.connect()
  await createTables(source)
  const deployments = [
    new ParityDeployment('embedded', embedded.url, (flags) => embedded.token(flags)),
    new ParityDeployment('stack', fleet.front.url, (flags) => fleet.token(flags)),
  ] as const
  const random = new Random(seed)
  const tables = TABLES.map((table) => new Rows(table, random))
  for (let state = 0; state < STATES; state += 1) {
    for (const rows of tables) await rows.change(source, ROWS_A_STATE)
    if (state === 0) for (const deployment of deployments) await deployment.onboard(fleet.source)
    for (const deployment of deployments) await deployment.sync()
  }
  sides = [new Answers(deployments[0]), new Answers(deployments[1])]
  for (const side of sides) await side.learnHashes()
  reads = generateReads(random, tables, COUNTS)
})

after(async () => {
  await source?.end()
  await fleet?.close()
  await embedded?.stop()
  await rm(folder, { recursive: true, force: true })
})

interface Difference {
  readonly read: Read
  readonly left: Compared
  readonly right: Compared
}

async function compare(asked: readonly Read[]) {
  const seen = { answered: 0, refused: 0, withRows: 0 }
  const differences: Difference[] = []
  const left = [...asked]
  const work = async () => {
    for (let read = left.pop(); read !== undefined; read = left.pop()) {
      const [one, other] = await Promise.all([sides[0].to(read), sides[1].to(read)])
      if (one.status !== other.status || one.said !== other.said) differences.push({ read, left: one, right: other })
      if (one.status === 200) seen.answered += 1
      else seen.refused += 1
      if (one.rows > 0) seen.withRows += 1
      assert.ok(one.status < 500, `${one.status} ${one.said}`)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return { ...seen, differences }
}

/** Whether the two have a word of a difference between them, and which read shows it. */
function assertNone(differences: readonly Difference[]): void {
  const [first] = differences
  if (first === undefined) return
  const { read, left, right } = first
  const what = `${differences.length} answers differ (seed ${seed}), as of ${read.reader}: ${left.question}`
  assert.equal(`${right.status} ${right.said}`, `${left.status} ${left.said}`, what)
}

describe('an embedded runtime and the full stack', { timeout: 600_000 }, () => {
  for (const kind of ['lookup', 'history', 'timeseries', 'realtime', 'sql'] as const) {
    it(`answer alike: ${kind}`, async () => {
      const asked = reads.filter((read) => read.kind === kind)
      const { answered, refused, withRows, differences } = await compare(asked)
      console.log(`${kind}: ${answered} answered, ${withRows} of them with rows, ${refused} refused`)
      assertNone(differences)
      assert.ok(withRows > asked.length / 4, 'enough of the reads had something to compare')
    })
  }
})
