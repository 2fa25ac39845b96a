import { randomUUID } from 'node:crypto'
import { mkdir, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isAlive } from './walls/process-table.ts'

const NAME = /^spill-(\d+)-/

/** Folders that own jobs spill into. Those of a runtime that was killed are cleared away by the next. */
export class SpillFolders {
  readonly #root: string
  #cleared: Promise<void> | null = null

  constructor(root: string) {
    this.#root = root
  }

  async make(): Promise<string> {
    await mkdir(this.#root, { recursive: true, mode: 0o700 })
    this.#cleared ??= this.#clearOrphans()
    await this.#cleared
    const dir = join(this.#root, `spill-${process.pid}-${randomUUID()}`)
    await mkdir(dir, { mode: 0o700 })
    return dir
  }

  async #clearOrphans(): Promise<void> {
    for (const name of await readdir(this.#root)) {
      const pid = Number(NAME.exec(name)?.[1])
      if (Number.isNaN(pid) || isAlive(pid)) continue
      await rm(join(this.#root, name), { recursive: true, force: true })
    }
  }
}
