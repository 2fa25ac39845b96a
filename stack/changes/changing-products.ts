/** A runtime that sends changes to a Kafka, killed and started again on one data folder, and the source it reads. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { registryFacts } from '../../test/crash/databases.ts'
import { onboard, type Readers, readersOf } from '../../test/crash/readers.ts'
import { RuntimeProcess } from '../../test/crash/runtime-process.ts'
import { Seeded } from '../../test/crash/seeded.ts'
import { CrashSource, type Expected } from '../../test/crash/source.ts'

const WAIT_MS = 180_000

export interface TopicState {
  readonly topic: string
  readonly variant: 'masked' | 'clear'
  readonly state: 'ok' | 'pending' | 'failed' | 'refused'
  readonly epoch: number | null
  readonly error: { readonly code: string } | null
}

export class ChangingProducts {
  readonly folder: string
  readonly #config: string
  readonly #source: CrashSource
  readonly #random = new Seeded(7)
  #runtime: RuntimeProcess
  #connection = ''
  readers: Readers
  url: string
  /** What each epoch of each product has to hold, the first at 0. */
  readonly expected: Expected[] = []

  private constructor(
    folder: string,
    config: string,
    source: CrashSource,
    started: Awaited<ReturnType<typeof startRuntime>>,
  ) {
    this.folder = folder
    this.#config = config
    this.#source = source
    this.#runtime = started.runtime
    this.readers = started.readers
    this.url = started.url
  }

  /** @param broker `kafka://user:password@host:port`, of a login that makes topics and rules */
  static async open(broker: URL): Promise<ChangingProducts> {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-changes-'))
    const config = join(folder, 'sluice.yaml')
    await writeFile(config, JSON.stringify(settings(broker)))
    const source = await CrashSource.start(join(folder, 'source'))
    const started = await startRuntime(join(folder, 'data'), config, null)
    const products = new ChangingProducts(folder, config, source, started)
    products.#connection = await onboard(products.readers, source)
    return products
  }

  /** Lets the source change, and asks for a sync. Does not wait for its end. */
  async change(): Promise<void> {
    await this.#source.change(this.#random)
    this.expected.push(await this.#source.expected())
    await this.readers.developer.post(`/api/v1/connections/${this.#connection}/sync`)
  }

  /** Waits until the last run has succeeded. */
  async synced(): Promise<void> {
    await this.until('the run ends', async () => {
      const { runs } = await registryFacts(join(this.folder, 'data'))
      const last = runs.at(-1)
      if (last?.state === 'failed') throw new Error(`the run failed: ${JSON.stringify(last)}`)
      return last?.state === 'succeeded'
    })
  }

  async topics(product: 'people' | 'visits'): Promise<readonly TopicState[]> {
    const found = await this.readers.developer.get<{ change_topics: TopicState[] }>(`/api/v1/products/${product}`)
    return found.change_topics
  }

  /** Waits until every topic of the product has the epoch. */
  async sent(product: 'people' | 'visits', epoch: number): Promise<void> {
    await this.until(`changes of ${product} up to ${epoch} are sent`, async () =>
      (await this.topics(product)).every((topic) => topic.state === 'ok' && topic.epoch === epoch),
    )
  }

  /** Starts the runtime anew; with a fault it will be killed there. */
  async restart(fault: string | null): Promise<void> {
    await this.#runtime.stop()
    const started = await startRuntime(join(this.folder, 'data'), this.#config, fault)
    this.#runtime = started.runtime
    this.readers = started.readers
    this.url = started.url
  }

  /** Resolves with the signal that has ended the runtime. */
  async killed(): Promise<NodeJS.Signals | null> {
    const { signal } = await this.#runtime.ended
    await this.#runtime.lastSurvivors()
    return signal
  }

  async until(what: string, isSo: () => Promise<boolean>): Promise<void> {
    for (const deadline = Date.now() + WAIT_MS; Date.now() < deadline; await sleep(100)) {
      if (await isSo()) return
    }
    throw new Error(`not in time: ${what}\n${this.#runtime.output}`)
  }

  /** Deploys people anew, with a column in another class. */
  async reclassify(version: string, column: string, classification: string): Promise<void> {
    const parts: Record<string, string> = {}
    for (const part of ['product', 'inputs', 'output', 'quality', 'serving', 'compute']) {
      const file = join(import.meta.dirname, `../../test/crash/products/people/${part}.yaml`)
      parts[part] = (await readFile(file, 'utf8')).replace(
        new RegExp(`name: ${column}, type: string,`),
        `name: ${column}, type: string, classification: ${classification},`,
      )
    }
    await this.readers.developer.upload('/api/v1/products/people/manifests', parts)
    await this.readers.developer.post('/api/v1/products/people/deploy', { version, dry_run: false })
  }

  async close(): Promise<void> {
    this.#runtime.kill()
    await this.#runtime.ended
    await this.#runtime.lastSurvivors()
    await this.#source.stop()
    await rm(this.folder, { recursive: true, force: true })
  }
}

function settings(broker: URL) {
  return {
    events: {
      kafka: {
        brokers: [broker.host],
        username: broker.username,
        password: broker.password,
        mechanism: 'PLAIN',
        tls: false,
        partitions: 3,
        reader_principal: 'User:{tenant}',
        change_topics: true,
        cleared_principal: 'User:{tenant}-cleared',
      },
    },
  }
}

async function startRuntime(data: string, config: string, fault: string | null) {
  const runtime = await RuntimeProcess.spawn(data, fault, 0, config)
  const url = await runtime.address()
  if (url === null) throw new Error(`the runtime ended at its start:\n${runtime.output}`)
  return { runtime, url, readers: await readersOf(data, url) }
}
