/** What tests lay down and look at by one process of an engine: starting one costs more than either. */
import { type Engine, type EngineJob, type EngineRun, type EngineSession, filesOf } from '@sluice/engine'
import type { JobRunner } from './write.ts'

const IDLE_MS = 600_000

/** Runs plain jobs over files of one folder, one after the other, in a child that stays; others as the engine does. */
export class KeptChild implements JobRunner {
  readonly #engine: Engine
  readonly #directory: string
  readonly #limits: EngineJob['limits']
  #session: Promise<EngineSession> | null = null

  constructor(engine: Engine, directory: string, limits: EngineJob['limits']) {
    this.#engine = engine
    this.#directory = directory
    this.#limits = limits
  }

  async run(job: EngineJob, signal: AbortSignal): Promise<EngineRun> {
    if (!this.#takes(job)) return this.#engine.run(job, signal)
    const session = await this.#openSession()
    try {
      // What a job makes beside files is gone with its transaction.
      const steps = [{ sql: 'BEGIN' }, ...(job.steps ?? []), { sql: 'ROLLBACK' }]
      return await session.run({ tables: job.tables ?? [], steps })
    } catch (error) {
      await session.close()
      throw error
    }
  }

  #takes(job: EngineJob): boolean {
    const { tables = [], readPaths = [], writeDirs = [], limits } = job
    const paths = [...tables.flatMap(filesOf), ...readPaths, ...writeDirs]
    const isInside = paths.every((path) => path.startsWith(`${this.#directory}/`))
    return isPlain(job) && isInside && limits.threads === this.#limits.threads
  }

  /** Anew where it has ended: with a statement that failed, or because nobody has asked for long. */
  #openSession(): Promise<EngineSession> {
    const job = { trust: 'own', writeDirs: [this.#directory], limits: this.#limits, idleMs: IDLE_MS } as const
    // It ends with its engine, and not at a time of its own.
    const open = () => this.#engine.open(job, new AbortController().signal)
    const known = this.#session?.catch(() => null) ?? Promise.resolve(null)
    this.#session = known.then((session) => (session?.isOpen === true ? session : open()))
    return this.#session
  }
}

function isPlain({ csvInput, output, tables = [], steps = [] }: EngineJob): boolean {
  const asksMore = tables.some(({ rows }) => rows !== undefined) || steps.some(({ gate }) => gate === true)
  return csvInput === undefined && output === undefined && !asksMore
}
