/** The guide to a first change leads, step by step in a copy of the repository, to what it says. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { printedBy } from '../../packaging/tarballs.ts'
import { copyOfRepository } from './copy.ts'

const ROOT = join(import.meta.dirname, '../..')
const BLOCK = /^(?:`([\w./-]+)`:\n\n)?```(\w+)\n([^]*?)^```\n\n?(It fails)?/gm
/** What a copy has no need of, and what is done with the result; all else that the guide says is run. */
const NOT_RUN = /^(npm ci|git )/

interface Step {
  readonly file: string | undefined
  readonly language: string
  readonly text: string
  readonly fails: boolean
}

let folder: string
let copy: string
let steps: readonly Step[]

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-change-'))
  copy = await copyOfRepository(join(folder, 'repository'))
  const text = await readFile(join(ROOT, 'docs/guides/your-first-change.md'), 'utf8')
  steps = [...text.matchAll(BLOCK)].map(([, file, language = '', content = '', fails]) => {
    return { file, language, text: content, fails: fails !== undefined }
  })
})

after(() => rm(folder, { recursive: true, force: true }))

/** The commands that were run. */
async function follow({ file, language, text, fails }: Step): Promise<readonly string[]> {
  if (language === 'ts') await writeFile(join(copy, file as string), text, { flag: 'wx' })
  else if (language === 'diff') await patch(text)
  else if (language === 'md') await noteChange(text)
  else return run(text, fails)
  return []
}

async function patch(text: string): Promise<void> {
  await writeFile(join(folder, 'change.diff'), text)
  await printedBy(copy, 'git', ['apply', '--recount', join(folder, 'change.diff')])
}

async function noteChange(line: string): Promise<void> {
  const file = join(copy, 'CHANGELOG.md')
  const before = await readFile(file, 'utf8')
  const noted = before.replace('## Unreleased\n\n', (head) => head + line)
  assert.notEqual(noted, before)
  await writeFile(file, noted)
}

/** A run of tests of its own, and no part of this one. */
function environment(): NodeJS.ProcessEnv {
  const { NODE_TEST_CONTEXT: _, ...rest } = process.env
  return rest
}

async function run(text: string, fails: boolean): Promise<readonly string[]> {
  const commands = text.split('\n').filter((line) => line !== '' && !NOT_RUN.test(line))
  for (const command of commands) {
    const [program = '', ...args] = command.split(' ')
    const running = printedBy(copy, program, args, environment())
    if (fails) await assert.rejects(running, /sluice_http_answer_bytes_total/, command)
    else await running
  }
  return commands
}

test('each step of the first change does what the guide says of it', async () => {
  const done: string[] = []
  for (const step of steps) done.push(...(await follow(step)))
  assert.deepEqual(
    steps.map(({ language }) => language),
    ['sh', 'ts', 'sh', 'diff', 'sh', 'md', 'sh', 'sh'],
  )
  assert.equal(done.filter((command) => command.startsWith('npm test -- ')).length, 2)
  assert.equal(steps.filter(({ fails }) => fails).length, 1)
})

test('the files that the guide names are there', async () => {
  const text = await readFile(join(ROOT, 'docs/guides/your-first-change.md'), 'utf8')
  const table = text.slice(text.indexOf('## Other first changes'))
  for (const [, file = ''] of table.matchAll(/`((?:runtime|test|docs|acceptance|conformance-tests)\/[^`]*)`/g))
    assert.ok(existsSync(join(ROOT, file)), file)
})
