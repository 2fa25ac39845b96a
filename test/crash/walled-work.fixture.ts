/** Asks an engine and a connector for work that needs walls, and prints as JSON what each of them answers. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createEngine, kernelWalls } from '@sluice/engine'
import { NEEDED_WALLS } from '@sluice/engine/walls'
import { type ConnectorHost, isSluiceError } from '@sluice/sdk'
import { SourceReaders } from '../../runtime/src/ingestion/source-readers.ts'

const MB = 1024 * 1024
const LONG_MS = 600_000
const signal = AbortSignal.timeout(LONG_MS)
const nothing = () => {}

async function answerOf(work: () => Promise<unknown>): Promise<string> {
  try {
    await work()
    return 'done'
  } catch (error) {
    return isSluiceError(error) ? error.code : String(error)
  }
}

const folder = await mkdtemp(join(tmpdir(), 'sluice-walled-work-'))
const engine = createEngine({
  scratchDir: folder,
  maxChildren: 2,
  warmChildren: 0,
  maxQueued: 1,
  neededWalls: NEEDED_WALLS,
})
const readers = new SourceReaders({
  maxReaders: 2,
  memoryBytes: 256 * MB,
  privateFolders: [],
  silenceMs: LONG_MS,
  callMs: LONG_MS,
  readMs: LONG_MS,
  neededWalls: NEEDED_WALLS,
})
const limits = { memoryBytes: 256 * MB, timeoutMs: LONG_MS, threads: 1 }
const steps = [{ sql: 'SELECT 1' }]
const url = import.meta.resolve('@sluice/connectors/postgresql')
const plugin = readers.wall((await import(url)).default, url)
const host = {
  logger: { debug: nothing, info: nothing, warn: nothing, error: nothing },
  metrics: { count: nothing, observe: nothing },
  clock: { nowMs: Date.now, every: () => nothing },
  network: { resolve: () => Promise.reject(new Error('nowhere')), allowsCleartextPassword: () => false },
} as unknown as ConnectorHost
const connector = await plugin.open({ host: 'db.invalid', database: 'd', user: 'u', ssl_mode: 'disable' }, host)
const answers = {
  kernel: kernelWalls().flatMap(({ name, up }) => (up ? [] : [name])),
  tenant: await answerOf(() => engine.run({ trust: 'tenant', steps, limits }, signal)),
  own: await answerOf(() => engine.run({ trust: 'own', steps, limits }, signal)),
  source: await answerOf(() => connector.discover({ after: null, limit: 1 }, signal)),
}
await connector.close()
await readers.close()
await engine.close()
await rm(folder, { recursive: true, force: true })
process.stdout.write(JSON.stringify(answers))
