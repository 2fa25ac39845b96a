/** A copy of the checkout, or of a commit, that may be broken at will. */
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, posix } from 'node:path'
import { repositoryTree, type Tree, treeOf } from '../../stack/selection/tree.ts'
import { runChild } from '../child.ts'
import { applied, type Mutation } from './mutation.ts'

const ROOT = join(import.meta.dirname, '../..')

export class WorkingCopy {
  readonly root: string
  readonly tree: Tree

  private constructor(root: string, tree: Tree) {
    this.root = root
    this.tree = tree
  }

  /**
   * Of the files as they are here, or of a revision with what is installed here. What is installed is linked file by
   * file, so that each @sluice package, which is a relative link, is the copy's own.
   */
  static async make(signal: AbortSignal, revision?: string): Promise<WorkingCopy> {
    const root = await mkdtemp(join(tmpdir(), 'sluice-copy-'))
    try {
      if (revision === undefined) await copyTree(repositoryTree(ROOT), root)
      else await run(root, ['sh', '-c', 'git -C "$0" archive "$1" | tar -x', ROOT, revision], signal)
      await run(root, ['cp', '-al', join(ROOT, 'node_modules'), root], signal)
      // Linked, what one run keeps there would be written over by the other's.
      await rm(join(root, 'node_modules/.cache'), { recursive: true, force: true })
      // Some tests ask git which files there are.
      await run(root, ['sh', '-c', 'git init -q . && git add -A'], signal)
      return new WorkingCopy(root, treeOf(root, repositoryTree(root).files))
    } catch (error) {
      await rm(root, { recursive: true, force: true })
      throw error
    }
  }

  matching(globs: readonly string[]): readonly string[] {
    return [...this.tree.files].filter((file) => globs.some((glob) => posix.matchesGlob(file, glob)))
  }

  read(file: string): Promise<string> {
    return readFile(join(this.root, file), 'utf8')
  }

  /** Runs the work on the mutant; after it the copy is as before. */
  async whileMutated<Result>(mutation: Mutation, work: () => Promise<Result>): Promise<Result> {
    const path = join(this.root, mutation.file)
    const text = await readFile(path, 'utf8')
    await writeFile(path, applied(text, mutation))
    try {
      return await work()
    } finally {
      await writeFile(path, text)
      await this.#endLeftovers()
    }
  }

  async remove(): Promise<void> {
    await this.#endLeftovers()
    await rm(this.root, { recursive: true, force: true })
  }

  /** Tests start runtimes in sessions of their own, which a mutant, or the end of its time, may leave running. */
  async #endLeftovers(): Promise<void> {
    for (const pid of await readdir('/proc').catch(() => [])) {
      if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue
      const command = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
      if (command.includes(`${this.root}/`)) endProcess(Number(pid))
    }
  }
}

function endProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended already.
  }
}

async function copyTree({ root, files }: Tree, to: string): Promise<void> {
  for (const file of files) {
    await mkdir(join(to, dirname(file)), { recursive: true })
    await cp(join(root, file), join(to, file), { verbatimSymlinks: true })
  }
}

async function run(cwd: string, [command = '', ...args]: readonly string[], signal: AbortSignal): Promise<void> {
  const { code, tail } = await runChild(command, args, { cwd, signal })
  if (code !== 0) throw new Error(`${command} ended with ${code} while a copy was made:\n${tail}`)
}
