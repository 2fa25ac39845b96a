import { randomUUID } from 'node:crypto'
import { chown, lstat, mkdir, rename, rm, rmdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { SluiceError } from '@sluice/sdk'
import type { WrittenFile } from './job.ts'
import type { WireFile } from './protocol.ts'

/**
 * The folder that a `parquet-files` output writes into. The child never writes where files are read: it fills a folder
 * of its own beside them, and the parent moves the files when the child has ended well. So a failed job leaves
 * nothing, and whatever else a child may have put there is thrown away with the folder.
 */
export class Staging {
  readonly dir: string
  readonly #target: string

  private constructor(target: string) {
    this.#target = target
    this.dir = join(target, `.staging-${randomUUID()}`)
  }

  static async open(target: string): Promise<Staging> {
    const staging = new Staging(target)
    await mkdir(staging.dir, { mode: 0o700 })
    return staging
  }

  async keep(files: readonly WireFile[]): Promise<readonly WrittenFile[]> {
    const kept: WrittenFile[] = []
    for (const file of files) {
      const { name, ...stats } = file
      kept.push({ ...stats, path: await this.#move(basename(name)) })
    }
    await rmdir(this.dir)
    return kept
  }

  async discard(): Promise<void> {
    await rm(this.dir, { recursive: true, force: true })
  }

  async #move(name: string): Promise<string> {
    const from = join(this.dir, name)
    const found = await lstat(from)
    // A link would lend the lake's own rights to whatever it points at.
    if (!found.isFile() || found.nlink !== 1) {
      throw new SluiceError('INTERNAL', 'an engine process wrote something that is not a plain file', {
        code: 'engine_output_suspect',
      })
    }
    // The child's user must not be able to change what has become part of the lake.
    if (found.uid !== process.getuid?.()) await chown(from, process.getuid?.() ?? -1, process.getgid?.() ?? -1)
    const to = join(this.#target, name)
    await rename(from, to)
    return to
  }
}
