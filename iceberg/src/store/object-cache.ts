import { copyFile, mkdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join, sep } from 'node:path'
import { type Engine, type EngineJob, filesOf } from '@sluice/engine'
import { mapAtOnce } from './at-once.ts'

const FETCHED_AT_ONCE = 4

export interface ObjectCacheOptions {
  /** A folder of one process. */
  readonly dir: string
  /** Copies beyond it go, the longest unused first; those in use stay, so that it can be exceeded for a time. */
  readonly maxBytes: number
  /** Brings an object into a file that is complete when it appears; gives its length. */
  fetch(path: string, file: string, signal: AbortSignal): Promise<number>
}

interface Copy {
  readonly path: string
  readonly sizeBytes: number
  holders: number
  /** It goes as soon as nobody holds it. */
  isForgotten: boolean
}

/** Copies of objects on this machine, for engine processes, which have no network. Objects never change. */
export class ObjectCache {
  readonly #options: ObjectCacheOptions
  /** In the order of their last use. */
  readonly #copies = new Map<string, Copy>()
  readonly #fetching = new Map<string, Promise<void>>()
  #bytes = 0

  constructor(options: ObjectCacheOptions) {
    this.#options = options
  }

  fileOf(path: string): string {
    return join(this.#options.dir, ...path.split('/'))
  }

  /** Fetches what is missing, and keeps all of it until the function that is given back is called. */
  async hold(files: readonly string[], signal: AbortSignal): Promise<() => Promise<void>> {
    const prefix = this.#options.dir + sep
    const paths = new Set(
      files.filter((file) => file.startsWith(prefix)).map((file) => file.slice(prefix.length).split(sep).join('/')),
    )
    const held: Copy[] = []
    const release = async () => {
      const released = held.splice(0)
      for (const copy of released) copy.holders -= 1
      for (const copy of released) if (copy.isForgotten) await this.#remove(copy)
      await this.#shrink()
    }
    try {
      await mapAtOnce([...paths], FETCHED_AT_ONCE, async (path) => held.push(await this.#held(path, signal)))
    } catch (error) {
      await release()
      throw error
    }
    return release
  }

  /** Takes over a local file as the copy of an object; it is gone from its place afterwards. */
  async take(localFile: string, path: string, sizeBytes: number): Promise<void> {
    const file = this.fileOf(path)
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    await rename(localFile, file).catch(async () => {
      // From another file system.
      await copyFile(localFile, file)
      await rm(localFile)
    })
    this.#remember(path, sizeBytes)
    await this.#shrink()
  }

  /** The object is no more, or may have what is to be nowhere: its copy goes, where it is held when the last holder has gone. */
  async forget(path: string): Promise<void> {
    const copy = this.#copies.get(path)
    if (copy === undefined) return
    copy.isForgotten = true
    await this.#remove(copy)
  }

  /** All copies in that folder, those that are being fetched too. */
  async forgetIn(folder: string): Promise<void> {
    const isIn = (path: string) => path.startsWith(`${folder}/`)
    await Promise.allSettled([...this.#fetching].filter(([path]) => isIn(path)).map(([, fetching]) => fetching))
    for (const path of [...this.#copies.keys()].filter(isIn)) await this.forget(path)
  }

  async #held(path: string, signal: AbortSignal): Promise<Copy> {
    for (;;) {
      signal.throwIfAborted()
      const copy = this.#copies.get(path)
      if (copy !== undefined) {
        this.#copies.delete(path)
        this.#copies.set(path, copy)
        copy.holders += 1
        // Somebody may have emptied the folder.
        if (await exists(this.fileOf(path))) return copy
        copy.holders -= 1
        this.#drop(path, copy)
      }
      await this.#fetchOnce(path, signal)
    }
  }

  /** Those who want the same object wait for one transfer; when its caller gives up, they begin anew. */
  async #fetchOnce(path: string, signal: AbortSignal): Promise<void> {
    const underway = this.#fetching.get(path)
    // Its caller is told; who waits beside it begins anew.
    if (underway !== undefined) return underway.catch(() => undefined)
    const fetching = this.#options
      .fetch(path, this.fileOf(path), signal)
      .then((sizeBytes) => this.#remember(path, sizeBytes))
    this.#fetching.set(path, fetching)
    try {
      await fetching
    } finally {
      this.#fetching.delete(path)
    }
  }

  #remember(path: string, sizeBytes: number): void {
    const known = this.#copies.get(path)
    if (known !== undefined) return
    this.#copies.set(path, { path, sizeBytes, holders: 0, isForgotten: false })
    this.#bytes += sizeBytes
  }

  async #remove(copy: Copy): Promise<void> {
    if (copy.holders > 0 || this.#copies.get(copy.path) !== copy) return
    this.#drop(copy.path, copy)
    await rm(this.fileOf(copy.path), { force: true })
  }

  #drop(path: string, copy: Copy): void {
    if (this.#copies.get(path) !== copy) return
    this.#copies.delete(path)
    this.#bytes -= copy.sizeBytes
  }

  async #shrink(): Promise<void> {
    for (const [path, copy] of this.#copies) {
      if (this.#bytes <= this.#options.maxBytes) return
      if (copy.holders > 0) continue
      this.#drop(path, copy)
      await rm(this.fileOf(path), { force: true })
    }
  }
}

/** The engine, given copies of the objects that a job reads before it begins, and until it has ended. */
export function withObjects(engine: Engine, cache: ObjectCache): Engine {
  return {
    async run(job, signal) {
      const release = await cache.hold(readBy(job), signal)
      try {
        const run = await engine.run(job, signal)
        if (job.output === undefined) await release()
        // What cannot be given back takes room until it is dropped; the run has its own outcome.
        else run.finished.then(release, release).catch(() => undefined)
        return run
      } catch (error) {
        await release()
        throw error
      }
    },
    async open(job, signal) {
      const release = await cache.hold(readBy(job), signal)
      try {
        const session = await engine.open(job, signal)
        // What cannot be given back takes room until it is dropped.
        session.ended.then(release).catch(() => undefined)
        return session
      } catch (error) {
        await release()
        throw error
      }
    },
    walls: () => engine.walls(),
    probe: (signal) => engine.probe(signal),
    close: () => engine.close(),
  }
}

function readBy({ tables = [], readPaths = [] }: Pick<EngineJob, 'tables' | 'readPaths'>): readonly string[] {
  return [...tables.flatMap(filesOf), ...readPaths]
}

function exists(file: string): Promise<boolean> {
  return stat(file).then(
    () => true,
    () => false,
  )
}
