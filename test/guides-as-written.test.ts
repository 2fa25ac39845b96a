/** What the guides say to type and to write is taken by what it is for: commands, settings, manifests, links, tables. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, normalize } from 'node:path'
import { after, test } from 'node:test'
import type { TSchema } from 'typebox'
import { Value } from 'typebox/value'
import { parse, stringify } from 'yaml'
import { parseArguments } from '../runtime/src/command/arguments.ts'
import { checkFlags, checkWords, commandsUnder, findCommand } from '../runtime/src/command/command.ts'
import { configKeys } from '../runtime/src/command/config-reference.ts'
import { COMMANDS, CONFIG_FLAGS } from '../runtime/src/command/main.ts'
import { loadConfig } from '../runtime/src/config.ts'
import { ERROR_CODES } from '../runtime/src/http/codes.ts'
import { CheckedFile } from '../runtime/src/manifest/checked-file.ts'
import { exampleFiles } from '../runtime/src/manifest/examples.ts'
import { FILE_SCHEMAS } from '../runtime/src/manifest/parse-manifests.ts'
import { type Json, MANIFEST_NAMES, type ManifestName } from '../runtime/src/manifest/problem.ts'
import { findPlugin, loadPlugin } from '../runtime/src/plugins/loader.ts'
import { type Block, blocksOf, commandsOf, guidePages, lineAt, type Page, proseOf, ROOT } from './guide-pages.ts'

const PAGES = guidePages()
const folder = mkdtempSync(join(tmpdir(), 'sluice-guides-'))

after(() => rmSync(folder, { recursive: true, force: true }))

/** `page:line: what is wrong` of everything on every page; the number tells that something was looked at. */
async function judged<T>(
  parts: (page: Page) => readonly (T & { readonly line: number })[],
  wrong: (part: T) => string | null | Promise<string | null>,
) {
  const refused: string[] = []
  let count = 0
  for (const page of PAGES) {
    for (const part of parts(page)) {
      count += 1
      const why = await wrong(part)
      if (why !== null) refused.push(`${page.path}:${part.line}: ${why}`)
    }
  }
  return { refused, count }
}

const messageOf = (act: () => unknown): string | null => {
  try {
    act()
    return null
  } catch (error) {
    return (error as Error).message
  }
}

test('every command that a page says to type is one, with words and flags that it takes', async () => {
  const { refused, count } = await judged(
    ({ text }) => commandsOf(text),
    ({ argv, isMention }) => {
      const [first = ''] = argv
      if (['help', '--help', '--version', 'COMMAND', '…'].includes(first)) return null
      return messageOf(() => {
        const args = parseArguments(argv.map((word) => (isMention && word === '--' ? '--help' : word)))
        const found = findCommand(COMMANDS, args.words)
        if (found === null) {
          assert.ok(isMention && commandsUnder(COMMANDS, args.words).length > 0, `there is no sluice ${argv.join(' ')}`)
          return
        }
        const { command, name, rest } = found
        const bare = isMention ? { ...args, withoutValue: [] } : args
        checkFlags(command, bare, CONFIG_FLAGS)
        for (const flag of isMention ? (args.withoutValue ?? []) : [])
          checkFlags(command, { words: [], flags: { [flag]: '' } }, CONFIG_FLAGS)
        checkWords(command, name, rest)
      })
    },
  )
  assert.ok(count > 120, `${count} commands`)
  assert.deepEqual(refused, [])
})

const withLanguage =
  (...languages: readonly string[]) =>
  ({ text }: Page): readonly Block[] =>
    blocksOf(text).filter(({ language }) => languages.includes(language))

test('every block of a shell is one that a shell takes', async () => {
  const { refused, count } = await judged(withLanguage('sh', 'bash'), ({ text }) =>
    messageOf(() => execFileSync('bash', ['-n'], { input: text, stdio: ['pipe', 'ignore', 'pipe'] })),
  )
  assert.ok(count > 40, `${count} blocks`)
  assert.deepEqual(refused, [])
})

/** A member of an object stands for itself, as a part of a file that the reader has. */
const jsonOf = (text: string): unknown => JSON.parse(/^"\w+":/.test(text) ? `{${text}}` : text)

test('every block of JSON is JSON', async () => {
  const { refused, count } = await judged(withLanguage('json'), ({ text }) => messageOf(() => jsonOf(text)))
  assert.ok(count > 10, `${count} blocks`)
  assert.deepEqual(refused, [])
})

interface Settings {
  readonly type: string
  readonly settings: unknown
}

/** Settings of connections: of a file that a command takes, and those that a document for POST holds. */
function connectionsOf({ text }: Page): readonly (Settings & { readonly line: number })[] {
  const blocks = blocksOf(text).filter(({ language }) => language === 'json')
  const ofCommands = commandsOf(text).flatMap(({ argv, line }) => {
    const { flags } = parseArguments(argv)
    const block = blocks.find(({ file }) => file !== null && file === flags['config-file'])
    return block === undefined ? [] : [{ line, type: flags['type'] ?? 'postgresql', settings: jsonOf(block.text) }]
  })
  const posted = blocks.flatMap(({ text: json, line }) => {
    const { connector_type: type, config_encrypted: settings } = jsonOf(json) as Readonly<Record<string, string>>
    return type === undefined || settings === undefined
      ? []
      : [{ line, type, settings: JSON.parse(settings) as unknown }]
  })
  return [...ofCommands, ...posted]
}

test('the settings of a connection are those that its connector takes', async () => {
  const types = new Set(PAGES.flatMap((page) => connectionsOf(page).map(({ type }) => type)))
  const schemas = new Map<string, TSchema>()
  for (const type of types) {
    if (type === 'push') continue
    const proof = { allowUnproved: true, trustedKeys: [], folder: null }
    const { plugin } = await loadPlugin(`@sluice/connectors/${type}`, ROOT, proof)
    assert.ok(plugin.kind === 'connector')
    schemas.set(type, plugin.settingsSchema as TSchema)
  }
  const { refused, count } = await judged(connectionsOf, ({ type, settings }) => {
    const schema = schemas.get(type)
    if (schema === undefined) return null
    const [problem] = Value.Errors(schema, Value.Default(schema, structuredClone(settings)))
    return problem === undefined ? null : `${type}: ${problem.instancePath} ${problem.message}`
  })
  assert.ok(count > 2, `${count} connections`)
  assert.deepEqual(refused, [])
})

const CONFIG_GROUPS = new Set(configKeys().map(({ path }) => path.split('.')[0] as string))

/** Of `sluice.yaml` as the block has it; secrets of the environment are there. */
function configOf(text: string): ReturnType<typeof loadConfig> {
  const file = join(folder, 'sluice.yaml')
  writeFileSync(file, stringify(parse(text, { maxAliasCount: 0 })))
  const names = [...text.matchAll(/\$\{env:(\w+)\}/g)].map(([, name]) => [name as string, 'value'])
  return loadConfig({ file, environment: Object.fromEntries(names) as Record<string, string>, flags: {} })
}

/** Where a key stands twice, the block shows one after the other what may be written. */
function alternatives({ text, line }: Block): readonly { readonly text: string; readonly line: number }[] {
  const keys = [...text.matchAll(/^(\w+):/gm)].map(([, key]) => key)
  if (new Set(keys).size === keys.length) return [{ text, line }]
  return text.split('\n').flatMap((one, index) => (one === '' ? [] : [{ text: one, line: line + index }]))
}

const yamlOf = (page: Page) => withLanguage('yaml')(page).flatMap(alternatives)

test('every block of YAML is a part of sluice.yaml, or of a manifest, that is taken', async () => {
  const minimal = await exampleFiles('minimal')
  const manifestOf = (part: Readonly<Record<string, unknown>>, text: string): ManifestName | undefined => {
    const named = MANIFEST_NAMES.find((name) => text.startsWith(`# ${name}.yaml`) || part['kind'] === kindOf(name))
    return named ?? MANIFEST_NAMES.find((name) => Object.keys(part).every((key) => key in propertiesOf(name)))
  }
  const { refused, count } = await judged(yamlOf, ({ text }) =>
    messageOf(() => {
      const part = parse(text, { maxAliasCount: 0 }) as Record<string, unknown>
      // The middle of a file, which begins further in.
      if (/^ /.test(text)) return
      const manifest = manifestOf(part, text)
      if (manifest !== undefined) {
        const whole = { ...(parse(Buffer.from(minimal[manifest]).toString()) as object), ...part } as Json
        const [finding] = new CheckedFile(manifest, FILE_SCHEMAS[manifest], whole).findings
        assert.equal(finding && `${manifest}: ${finding.path.join('.')} ${finding.message}`, undefined)
        return
      }
      const keys = Object.keys(part).filter((key) => !CONFIG_GROUPS.has(key))
      assert.deepEqual(keys, [], `neither of a manifest nor of sluice.yaml: ${keys.join(', ')}`)
      configOf(text)
    }),
  )
  assert.ok(count > 30, `${count} blocks`)
  assert.deepEqual(refused, [])
})

test('with the plugins that a block lists a server starts: each serving type has its store among them', async () => {
  const { refused, count } = await judged(
    (page) => yamlOf(page).filter(({ text }) => /^plugins:/m.test(text)),
    async ({ text }) => {
      const { plugins, serving } = configOf(text)
      // What the reader is about to write is not there yet, and serves what the block says of it.
      const found = plugins.filter((specifier) => !/^\.\/my-/.test(specifier))
      const declared = await Promise.all(found.map(async (specifier) => (await findPlugin(specifier, ROOT)).declared))
      const lacking = Object.entries(serving).filter(
        ([type, { driver }]) =>
          !plugins.includes(`./${driver}`) &&
          !declared.some((one) => one.kind === 'serving' && one.type === type && one.name === driver),
      )
      return lacking.length === 0 ? null : `nothing serves ${lacking.map(([type]) => type).join(', ')}`
    },
  )
  assert.ok(count > 10, `${count} lists`)
  assert.deepEqual(refused, [])
})

const kindOf = (name: ManifestName): string => name.slice(0, 1).toUpperCase() + name.slice(1)

const propertiesOf = (name: ManifestName): object =>
  (FILE_SCHEMAS[name] as unknown as { readonly properties: object }).properties

test('what is said of an error is so: its code, and the status that comes with it', async () => {
  const { refused, count } = await judged(
    ({ text }) =>
      [...text.matchAll(/\b([45]\d\d),? `([a-z]+(?:_[a-z]+)+)`|`?\b([a-z]+(?:_[a-z]+)+)`?, ([45]\d\d)\b/g)].map(
        (found) => ({
          line: lineAt(text, found.index),
          code: (found[2] ?? found[3]) as string,
          status: Number(found[1] ?? found[4]),
        }),
      ),
    ({ code, status }) => {
      const known = (ERROR_CODES as Readonly<Record<string, { readonly status: number }>>)[code]
      if (known === undefined) return `there is no code ${code}`
      return known.status === status ? null : `${code} is ${known.status}, and not ${status}`
    },
  )
  assert.ok(count > 10, `${count} codes`)
  assert.deepEqual(refused, [])
})

/** What a heading is called in an address, as GitHub does it. */
const anchorOf = (heading: string): string =>
  heading
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\-_ ]/gu, '')
    .trim()
    .replaceAll(' ', '-')

test('every link leads to a file that is there, and to a heading that it has', async () => {
  const { refused, count } = await judged(
    ({ path, text }) => {
      const prose = proseOf(text).replaceAll(/`[^`\n]*`/g, '')
      return [...prose.matchAll(/\]\((?![a-z]+:)([^)\s]+)\)/g)].map((found) => ({
        line: lineAt(prose, found.index),
        from: path,
        to: found[1] as string,
      }))
    },
    ({ from, to }) => {
      const [name = '', anchor] = to.split('#')
      const path = name === '' ? from : normalize(join(dirname(from), name))
      if (!existsSync(join(ROOT, path))) return `${to} is not there`
      if (anchor === undefined || !path.endsWith('.md')) return null
      const headings = [...proseOf(readFileSync(join(ROOT, path), 'utf8')).matchAll(/^#+ (.*)$/gm)]
      return headings.some(([, heading = '']) => anchorOf(heading) === anchor) ? null : `${path} has no #${anchor}`
    },
  )
  assert.ok(count > 150, `${count} links`)
  assert.deepEqual(refused, [])
})

test('every line of a table belongs to one, and has its columns', async () => {
  const cells = (row: string) =>
    row
      .replaceAll('\\|', '')
      .replaceAll(/`[^`]*`/g, '`')
      .split('|').length
  const { refused, count } = await judged(
    ({ text }) => {
      const lines = proseOf(text).split('\n')
      return lines.flatMap((row, index) => {
        if (!row.startsWith('|')) return []
        let first = index
        while (lines[first - 1]?.startsWith('|')) first -= 1
        return [{ line: index + 1, row, head: lines[first] as string, rule: lines[first + 1] ?? '' }]
      })
    },
    ({ row, head, rule }) => {
      if (!/^\|[ :|-]+\|$/.test(rule)) return 'there is no table around it'
      return cells(row) === cells(head) ? null : `${cells(row) - 2} columns, and the table has ${cells(head) - 2}`
    },
  )
  assert.ok(count > 300, `${count} lines`)
  assert.deepEqual(refused, [])
})
