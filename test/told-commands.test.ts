/**
 * What errors and answers tell somebody to do can be done: each command has these words and flags, each route is there. Of pages
 * `guides-as-written.test.ts` says so.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { commandsUnder, findCommand, REMOTE_FLAGS } from '../runtime/src/command/command.ts'
import { COMMANDS, CONFIG_FLAGS } from '../runtime/src/command/main.ts'
import { sourceFiles } from './sources.ts'

const files = sourceFiles(['{runtime,engine,iceberg,plugins,sdk,deploy}/**/*.{ts,yaml}']).filter(
  ({ path }) => !/\.(test|fixture)\.ts$/.test(path),
)

/** What stands behind the name where no command is meant. */
const NO_COMMAND = /^(help|command\b|connector\b|capture |names |on >|needs |\$\{)/
/** Every command takes them. */
const EVERYWHERE = ['help', ...CONFIG_FLAGS]

interface Told {
  readonly path: string
  /** From the command's first word to the end of the line, the quotation or the sentence. */
  readonly text: string
}

function toldCommands(): readonly Told[] {
  return files.flatMap(({ path, text }) =>
    [...text.matchAll(/(?<![\w/@.-])sluice ([a-z$][^\n"'`]*)/g)]
      .map((match) => (match[1] as string).split(/ #| \||&&|;|\. [A-Z]/)[0] as string)
      .filter((told) => !NO_COMMAND.test(told))
      .map((told) => ({ path, text: told })),
  )
}

const wordsOf = (told: string) => told.split(/\s+/).map((word) => word.replace(/[.,:)\]}]+$/, ''))

function fault({ path, text }: Told): readonly string[] {
  const words = wordsOf(text)
  const found = findCommand(COMMANDS, words)
  // A group is named alone where all of it is meant.
  if (found === null) return words.length === 1 && commandsUnder(COMMANDS, words).length > 0 ? [] : [`${path}: ${text}`]
  const { flags = {}, remote } = found.command
  const known = [...Object.keys(flags), ...(remote ? Object.keys(REMOTE_FLAGS) : []), ...EVERYWHERE]
  const named = [...text.matchAll(/(?<![\w-])--([a-z][a-z.-]*[a-z])/g)].map((match) => match[1] as string)
  return named
    .filter((flag) => !known.includes(flag) && !flag.includes('.'))
    .map((flag) => `${path}: --${flag} of ${text}`)
}

test('every command that is named somewhere is one, with its flags', () => {
  const told = toldCommands()
  assert.ok(told.length > 50, `the search finds too few: ${told.length}`)
  assert.deepEqual(told.flatMap(fault), [])
})

/** As a pattern. The one route that is written with a variable in it is two. */
const named = (route: string) =>
  route.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll('\\$\\{\\}', '(?:snapshots|quality)')

test('every route that is named in an answer is one', () => {
  const shape = (path: string) => path.replace(/\{\w+\}/g, '{}').replace(/[?.:].*$/, '')
  const routes = new Set<string>()
  const told = new Map<string, string>()
  for (const { path, text } of files.filter((file) => file.path.endsWith('.ts'))) {
    if (path.startsWith('runtime/src/http/routes/'))
      for (const [, route] of text.matchAll(/\bpath\b[^'`\n]*['`](\/[^'`]*)['`]/g)) routes.add(shape(route as string))
    for (const [, route] of text.matchAll(/\b(?:GET|POST|PUT|PATCH|DELETE) (\/api\/v1\/[\w/{}?=-]+)/g))
      told.set(shape(route as string), path)
  }
  assert.ok(told.size >= 10 && routes.size > 60, `the search finds too few: ${told.size}, ${routes.size}`)
  // Routes of one product are written without what is before it, and some for several names at once.
  const known = new RegExp(`^(?:/api/v1/products/{})?(?:${[...routes].map(named).join('|')})$`)
  const isRoute = (route: string) => known.test(route)
  assert.deepEqual(
    [...told].filter(([route]) => !isRoute(route)),
    [],
  )
})
