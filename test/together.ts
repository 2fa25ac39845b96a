/**
 * Test files that share a process: starting one and loading the same modules again takes most of what a small file
 * costs. Each file is a suite of its own, so its hooks are its own.
 */
import { writeFile } from 'node:fs/promises'
import { join, matchesGlob } from 'node:path'
import { pathToFileURL } from 'node:url'

const root = join(import.meta.dirname, '..')
const PROCESSES_OF_EACH_KIND = 2

/** They look at their own process and its children, set variables, or are as long as a process should be. */
export const ALONE = [
  '{acceptance,test}/**/*.int.test.ts',
  'engine/src/{*,lineage/*,walls/*}.int.test.ts',
  'engine/src/guard/{keyed-parts,row-wise}.int.test.ts',
  'runtime/src/database/{embedded-server,folder-lock,kept-server,pools,testing}.int.test.ts',
  'runtime/src/assembly/storage.int.test.ts',
  'plugins/realtime/lmdb/*.int.test.ts',
  '**/conformance.int.test.ts',
]
const isAlone = (file: string): boolean => ALONE.some((glob) => matchesGlob(file, glob))
/** By the name that such files have: see CONTRIBUTING.md. */
const startsOthers = (file: string): boolean => file.endsWith('.int.test.ts')

/** What the test runner is given in place of `files`; programs are written to the folder. */
export async function inFewProcesses(files: readonly string[], folder: string): Promise<readonly string[]> {
  const shared = files.filter((file) => !isAlone(file))
  // A process starts another the slower, the more memory it has: what starts children by the hundred is kept apart from
  // what fills memory with values that are made up.
  const [starting, others] = [shared.filter(startsOthers), shared.filter((file) => !startsOthers(file))].map(dealt)
  // In turns, since the runner takes them in this order: one that waits for others goes on beside one that does not.
  const groups = Array.from({ length: PROCESSES_OF_EACH_KIND }, (_, at) => [starting?.[at] ?? [], others?.[at] ?? []])
    .flat()
    .filter((group) => group.length > 0)
  const programs = groups.map(async (group, index) => {
    const program = join(folder, `together-${index + 1}.mjs`)
    await writeFile(program, programOf(group))
    return program
  })
  return [...files.filter(isAlone), ...(await Promise.all(programs))]
}

function dealt(files: readonly string[]): readonly (readonly string[])[] {
  return Array.from({ length: PROCESSES_OF_EACH_KIND }, (_, group) =>
    files.filter((_, index) => index % PROCESSES_OF_EACH_KIND === group),
  )
}

function programOf(files: readonly string[]): string {
  const suites = files.map((file) => {
    const address = pathToFileURL(join(root, file)).href
    return `describe(${JSON.stringify(file)}, () => import(${JSON.stringify(address)}))`
  })
  return ["import { describe } from 'node:test'", ...suites, ''].join('\n')
}
