/** What a fork is given: its workflows run what `.ci/run` runs, with pinned actions and few rights; its forms are whole. */
import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { parseDocument } from 'yaml'
import { ROOT } from './sources.ts'

interface Step {
  readonly uses?: string
  readonly run?: string
  readonly with?: Readonly<Record<string, unknown>>
}

interface Job {
  readonly steps: readonly Step[]
  readonly permissions?: unknown
  readonly 'timeout-minutes'?: number
}

interface Workflow {
  readonly on: Readonly<Record<string, unknown>>
  readonly permissions: unknown
  readonly concurrency?: { readonly group: string }
  readonly jobs: Readonly<Record<string, Job>>
}

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const found = (pattern: string) => globSync(pattern, { cwd: ROOT }).sort()

/** Throws where a key stands twice, too. */
function yamlOf<T>(path: string): T {
  const document = parseDocument(read(path))
  assert.deepEqual(document.errors, [], path)
  return document.toJS() as T
}

const workflows = found('.github/workflows/*.yml').map((path) => ({ path, workflow: yamlOf<Workflow>(path) }))
const steps = workflows.flatMap(({ workflow }) => Object.values(workflow.jobs).flatMap((job) => job.steps))
const commands = steps.flatMap(({ run = '' }) => run.split('\n').filter((line) => line.trim() !== ''))
const { scripts } = JSON.parse(read('package.json')) as { readonly scripts: Readonly<Record<string, string>> }

/** `npm ci` and `npm test` are npm's own; others name a script of package.json or a file. */
function missing(command: string): string | null {
  const [program = '', ...words] = command.trim().split(/\s+/)
  if (program === 'npm') {
    const script = words[0] === 'run' ? words[1] : words[0] === 'test' ? 'test' : null
    return script == null || script in scripts ? null : `${command}: package.json has no script ${script}`
  }
  const file = program === 'node' ? words[0] : program
  return file !== undefined && existsSync(join(ROOT, file)) ? null : `${command}: there is no ${file}`
}

describe('workflows', () => {
  test('there are some, and every other file below .github parses', () => {
    assert.ok(workflows.length >= 2)
    for (const path of found('.github/**/*.yml')) yamlOf(path)
  })

  test('every action is pinned to a commit, and says of which version', () => {
    for (const { path } of workflows)
      for (const line of read(path)
        .split('\n')
        .filter((one) => /\buses:/.test(one)))
        assert.match(line, /uses: [\w.-]+\/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/, path)
    const versions = new Map<string, Set<string>>()
    for (const { uses = '' } of steps.filter((step) => step.uses)) {
      const [name = '', commit = ''] = uses.split('@')
      versions.set(name, (versions.get(name) ?? new Set()).add(commit))
    }
    for (const [name, commits] of versions) assert.equal(commits.size, 1, `${name} is pinned to two commits`)
  })

  test('they may read the repository and nothing else, keep no login, and end', () => {
    for (const { path, workflow } of workflows) {
      assert.deepEqual(workflow.permissions, { contents: 'read' }, path)
      assert.equal('pull_request_target' in workflow.on, false, `${path} would run a stranger's code with our rights`)
      assert.ok(workflow.concurrency?.group, `${path} runs beside itself`)
      for (const [name, job] of Object.entries(workflow.jobs)) {
        assert.equal(job.permissions, undefined, `${path}: ${name} has rights of its own`)
        assert.ok(job['timeout-minutes'], `${path}: ${name} has no time-out`)
        for (const step of job.steps.filter(({ uses }) => uses?.startsWith('actions/checkout@')))
          assert.equal(step.with?.['persist-credentials'], false, `${path}: ${name} keeps the login`)
      }
    }
  })

  test('what they run is there, and no text of an event becomes a command', () => {
    assert.ok(commands.length >= 8)
    assert.deepEqual(commands.map(missing).filter(Boolean), [])
    assert.deepEqual(
      commands.filter((command) => command.includes('${{')),
      [],
    )
    for (const wrong of ['npm run no-such-script', 'node no/such/file.ts', '.ci/no-such-file'])
      assert.notEqual(missing(wrong), null)
  })

  test('every step of .ci/run is one of them', () => {
    const own = [...read('.ci/run').matchAll(/^suite '[^']+' (npm (?:run )?\S+)/gm)].map(([, command]) => command)
    assert.ok(own.length >= 5)
    for (const command of own)
      assert.ok(
        commands.some((line) => line === command || line.startsWith(`${command} `)),
        `no workflow runs ${command}`,
      )
  })
})

describe('forms and updates', () => {
  test('each form has a name, a description, and parts with ids of their own', () => {
    const forms = found('.github/ISSUE_TEMPLATE/*.yml').filter((path) => !path.endsWith('config.yml'))
    assert.ok(forms.length >= 2)
    for (const path of forms) {
      const { name, description, body } = yamlOf<{
        name: string
        description: string
        body: readonly { type: string; id?: string; attributes: { label?: string; value?: string } }[]
      }>(path)
      assert.ok(name && description, path)
      const parts = body.filter(({ type }) => type !== 'markdown')
      assert.equal(new Set(parts.map(({ id }) => id)).size, parts.length, path)
      for (const { type, id, attributes } of parts) {
        assert.ok(['input', 'textarea', 'dropdown', 'checkboxes'].includes(type), `${path}: ${type}`)
        assert.ok(id && attributes.label, path)
      }
    }
  })

  test('updates look where there is something to update', () => {
    const files = { npm: 'package-lock.json', 'docker-compose': 'docker-compose.yml', docker: 'Dockerfile' }
    const { updates } = yamlOf<{
      updates: readonly { 'package-ecosystem': string; directory?: string; directories?: readonly string[] }[]
    }>('.github/dependabot.yml')
    for (const { 'package-ecosystem': kind, directory, directories = [directory as string] } of updates)
      for (const folder of directories)
        if (kind === 'github-actions') assert.ok(workflows.length > 0)
        else assert.ok(existsSync(join(ROOT, folder, files[kind as keyof typeof files])), `${kind} in ${folder}`)
  })

  test('files that are linked from the pages of contribution are there', () => {
    for (const page of ['CODE_OF_CONDUCT.md', '.github/SUPPORT.md', 'CONTRIBUTING.md', 'SECURITY.md'])
      for (const [, target = ''] of read(page)
        .replace(/`[^`]*`/g, '')
        .matchAll(/\]\((?!https?:)([^)#]+)/g))
        assert.ok(existsSync(join(ROOT, page, '..', target)), `${page} links to ${target}`)
  })
})
