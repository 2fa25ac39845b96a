/**
 * Test files that share a process: starting one and loading the same modules again takes most of what a small file
 * costs. Each file is a suite of its own, so its hooks are its own.
 */
import { writeFile } from 'node:fs/promises'
import { join, matchesGlob } from 'node:path'
import { pathToFileURL } from 'node:url'

const root = join(import.meta.dirname, '..')
const PROCESSES = 4

/** They look at their own process and its children, set variables, or are as long as a process should be. */
export const ALONE = [
  '{acceptance,test}/**/*.int.test.ts',
  'engine/src/**/*.int.test.ts',
  'runtime/src/database/*.int.test.ts',
  'runtime/src/assembly/storage.int.test.ts',
  'plugins/realtime/lmdb/*.int.test.ts',
  '**/conformance.int.test.ts',
]
const isAlone = (file: string): boolean => ALONE.some((glob) => matchesGlob(file, glob))

/** What the test runner is given in place of `files`; programs are written to the folder. */
export async function inFewProcesses(files: readonly string[], folder: string): Promise<readonly string[]> {
  const shared = files.filter((file) => !isAlone(file))
  const groups = Array.from({ length: Math.min(PROCESSES, shared.length) }, (_, group) =>
    shared.filter((_, index) => index % PROCESSES === group),
  )
  const programs = groups.map(async (group, index) => {
    const program = join(folder, `together-${index + 1}.mjs`)
    await writeFile(program, programOf(group))
    return program
  })
  return [...files.filter(isAlone), ...(await Promise.all(programs))]
}

function programOf(files: readonly string[]): string {
  const suites = files.map((file) => {
    const address = pathToFileURL(join(root, file)).href
    return `describe(${JSON.stringify(file)}, () => import(${JSON.stringify(address)}))`
  })
  return ["import { describe } from 'node:test'", ...suites, ''].join('\n')
}
