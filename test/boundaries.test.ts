/** Who may import whom. The order of the runtime's folders is read from ARCHITECTURE.md, so the two cannot differ. */
import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import { describe, test } from 'node:test'
import { importsOf, ROOT, type SourceFile, sourceFiles } from './sources.ts'

/** The values that travel, the settings and the names of fault points belong to no stage. */
const EVERYWHERE = ['flow.ts', 'config.ts', 'fault-points.ts']
const RUNTIME = 'runtime/src/'
const isTest = (path: string) => /\.(test|fixture|conformance)\.ts$/.test(path)

/** The folders of the paragraph after the one that has these words. */
function declaredOrder(words: string): readonly string[] {
  const text = readFileSync(join(ROOT, 'ARCHITECTURE.md'), 'utf8')
  const line = text.slice(text.indexOf(words)).split('\n\n')[1] ?? ''
  return [...line.matchAll(/`([a-z]+)`/g)].map((match) => match[1] as string)
}

const order = declaredOrder('Folders of `runtime/src`')
const orderOfOperations = declaredOrder('Folders of `operations`')
const folderOf = (path: string) => (path.includes('/') ? path.slice(0, path.indexOf('/')) : '')

/** Why a file of the runtime may not import another, both below runtime/src; null where it may. */
function refusal(from: string, to: string): string | null {
  if (to.startsWith('../')) return 'lies outside runtime/src'
  const [own, other] = [folderOf(from), folderOf(to)]
  // What puts the stages together stands at the root, and may know them all.
  if (own === '' && !EVERYWHERE.includes(from)) return null
  if (EVERYWHERE.includes(to)) return null
  // What reads texts of others knows no stage, and the settings are such a text.
  if (own === '') return ['config', 'parsing'].includes(other) ? null : 'is a stage, which no stage-less file knows'
  if (own === 'operations' && other === 'operations') return refusalAmongOperations(from, to)
  if (own === other) return null
  if (other === '') return own === 'command' && to === 'main.ts' ? null : 'is a file that puts the runtime together'
  if (!order.includes(other)) return 'is in a folder that the order does not name'
  return order.indexOf(other) > order.indexOf(own) ? null : `stands before ${own} in the order`
}

const folderInOperations = (path: string) => folderOf(path.slice('operations/'.length))

function refusalAmongOperations(from: string, to: string): string | null {
  const [own, other] = [folderInOperations(from), folderInOperations(to)]
  // Beside the folders is only what each operation is given.
  if (own === other || own === '' || other === '') return null
  return orderOfOperations.indexOf(other) > orderOfOperations.indexOf(own) ? null : `stands before ${own} in the order`
}

function relativeTargets(file: SourceFile): readonly string[] {
  return importsOf(file.text)
    .filter((specifier) => specifier.startsWith('.'))
    .map((specifier) => posix.normalize(posix.join(dirname(file.path), specifier)))
}

function packagesOf(file: SourceFile): readonly string[] {
  return importsOf(file.text).filter((specifier) => !specifier.startsWith('.') && !specifier.startsWith('node:'))
}

const packageOf = (specifier: string) =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')

interface PackageJson {
  readonly name: string
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
}
const packageJson = (folder: string) =>
  JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8')) as PackageJson

/** What the sources of a folder import from outside of it and may not. */
function strangers(folder: string, allowed: (specifier: string, file: SourceFile) => boolean): string[] {
  return sourceFiles([`${folder}/**/*.ts`]).flatMap((file) => [
    ...relativeTargets(file)
      .filter((target) => !target.startsWith(`${folder}/`))
      .map((target) => `${file.path} imports ${target}`),
    ...packagesOf(file)
      .filter((specifier) => !allowed(specifier, file))
      .map((specifier) => `${file.path} imports ${specifier}`),
  ])
}

describe('imports', () => {
  test('every form of an import is seen', () => {
    const text = [
      "import a from './a.ts'",
      "import type { B } from './b.ts'",
      "import './c.ts'",
      "export * from './d.ts'",
      "const e = await import('./e.ts')",
      "type F = typeof import('./f.ts')",
      "import {\n  g,\n} from './g.ts'",
      "// import './no.ts'",
      "/* import './no.ts' */",
    ].join('\n')
    assert.deepEqual(importsOf(text), ['./a.ts', './b.ts', './c.ts', './d.ts', './e.ts', './f.ts', './g.ts'])
  })

  test('the order names every folder of the runtime, and no other', () => {
    const folders = new Set(
      sourceFiles([`${RUNTIME}*/**/*.ts`]).map((file) => folderOf(file.path.slice(RUNTIME.length))),
    )
    assert.deepEqual([...order].sort(), [...folders].sort())
    const operations = sourceFiles([`${RUNTIME}operations/*/*.ts`]).map((file) =>
      folderInOperations(file.path.slice(RUNTIME.length)),
    )
    assert.deepEqual([...orderOfOperations].sort(), [...new Set(operations)].sort())
  })

  test('an import against the order would be refused', () => {
    const [first, last] = [order[0], order.at(-1)]
    assert.equal(refusal(`${first}/x.ts`, `${last}/y.ts`), null)
    assert.notEqual(refusal(`${last}/x.ts`, `${first}/y.ts`), null)
    assert.notEqual(refusal(`${last}/x.ts`, 'container.ts'), null)
    assert.notEqual(refusal('flow.ts', 'http/y.ts'), null)
    assert.equal(refusal('operations/queries/x.ts', 'operations/rights/y.ts'), null)
    assert.notEqual(refusal('operations/rights/x.ts', 'operations/queries/y.ts'), null)
  })

  test('a folder of the runtime imports only folders after it', () => {
    const found = sourceFiles([`${RUNTIME}**/*.ts`]).flatMap((file) =>
      relativeTargets(file).flatMap((target) => {
        const why = isTest(file.path) ? null : refusal(file.path.slice(RUNTIME.length), posix.relative(RUNTIME, target))
        return why === null ? [] : [`${file.path} imports ${target}, which ${why}`]
      }),
    )
    assert.deepEqual(found, [])
  })

  test('what ARCHITECTURE.md and where-to-look.md say to look at is there', () => {
    const pages = ['ARCHITECTURE.md', 'docs/where-to-look.md']
    const text = pages.map((page) => readFileSync(join(ROOT, page), 'utf8')).join('\n')
    const named = text.split('\n').flatMap((line) => (line.startsWith('|') ? [...line.matchAll(/`([\w./*-]+)`/g)] : []))
    const paths = named.map((match) => match[1] as string).filter((name) => /[/]|\.(ts|yml)$/.test(name))
    // A name of its own after a folder's is of that folder, and is looked for everywhere.
    const isThere = (path: string) =>
      ['', RUNTIME, '*/', '*/src/'].some((at) => globSync(at + path, { cwd: ROOT }).length > 0)
    assert.ok(paths.length > 30)
    assert.deepEqual(
      paths.filter((path) => !isThere(path)),
      [],
    )
  })

  test('beside the folders of the runtime stands only what starts it, and what every stage may know', () => {
    const beside = sourceFiles([`${RUNTIME}*.ts`]).map(({ path }) => path.slice(RUNTIME.length))
    const expected = ['container.ts', 'further.ts', 'main.ts', ...EVERYWHERE].sort()
    assert.deepEqual(
      beside.filter((name) => !isTest(name)),
      expected,
    )
  })

  /**
   * What it may have from there: types, tables of words, functions that ask nothing, and the one by which an operation keeps
   * its answer in its own transaction.
   */
  const ASKS_NOTHING = ['isId', 'lostIn', 'recordAnswer']

  test('http asks the registry nothing: an operation stands between them', () => {
    const found = sourceFiles([`${RUNTIME}http/**/*.ts`])
      .filter(({ path }) => !isTest(path))
      .flatMap(({ path, text }) =>
        [...text.matchAll(/^import \{([^}]*)\} \w+ '[./]+registry\/[^']+'$/gm)].flatMap((match) =>
          (match[1] as string)
            .split(',')
            .map((name) => name.trim())
            .filter((name) => /^[a-z]/.test(name) && !name.startsWith('type ') && !ASKS_NOTHING.includes(name))
            .map((name) => `${path} imports ${name}`),
        ),
      )
    assert.deepEqual(found, [])
  })

  test('no SQL of the runtime names a schema that a plugin keeps its tables in', () => {
    const NAMED = /\b\w*SCHEMA = '(sluice_\w+)'/g
    const schemas = sourceFiles(['plugins/**/*.ts'])
      .filter(({ path }) => !isTest(path))
      .flatMap(({ text }) => [...text.matchAll(NAMED)].map((match) => match[1] as string))
    assert.ok(schemas.includes('sluice_store') && schemas.length > 2, `schemas seen: ${schemas}`)
    const naming = new RegExp(`\\b(?:${schemas.join('|')})\\b`)
    const found = sourceFiles([`${RUNTIME}**/*.ts`]).filter(({ path, text }) => !isTest(path) && naming.test(text))
    assert.deepEqual(
      found.map(({ path }) => path),
      [],
    )
  })

  /**
   * Servers beside the runtime that it knows by a kind of plugin alone. Excepted is what is stored under that name, or told to
   * callers by it, each below runtime/src with the reason.
   */
  const SERVERS: readonly {
    word: RegExp
    kind: string
    excepted: readonly (readonly [path: string, why: string])[]
  }[] = [
    { word: /kafka/i, kind: 'event-bus', excepted: [] },
    {
      word: /superset/i,
      kind: 'dashboard',
      excepted: [['command/client-file/differences.ts', 'what a set is to another']],
    },
    {
      word: /\bs3\b|minio/i,
      kind: 'object-store',
      excepted: [
        ['assembly/own-endpoints.ts', 'schemes of addresses that name files, and no server'],
        ['config/plugins.ts', 'a connector that reads such files is loaded by its package’s name'],
        ['http/routes/examples/reading.ts', 'an address, as a caller would see one'],
        ['http/routes/examples/tenants.ts', 'an address, as a caller would see one'],
      ],
    },
    {
      word: /trino/i,
      kind: 'compute',
      excepted: [
        ['auth/engine-user.ts', 'names of claims, which engines are configured by, and the code of a refusal'],
        ['command/dbt/tokens.ts', 'a dialect of dbt'],
        ['config/servers-beside.ts', 'the key of the policy endpoint in the configuration'],
        ['http/codes-of-access.ts', 'codes of errors, and the claim'],
        ['operations/catalog/table-access.ts', 'what the audit has always called such a read'],
        ['registry/engine-statements.ts', 'names of tables'],
        ['registry/migrations.ts', 'names of tables'],
        ['registry/migrations/029-trino-statements.ts', 'names of tables'],
      ],
    },
  ]
  /** What comes with the runtime has to be named somewhere: its settings, and its modules. */
  const NAMING = ['config/services.ts', 'plugins/own-plugins.ts']

  for (const { word, kind, excepted } of SERVERS) {
    test(`no file of the runtime names ${word.source}: it knows the kind ${kind}`, () => {
      const naming = sourceFiles([`${RUNTIME}**/*.*`])
        .filter(({ path, text }) => !isTest(path) && !path.includes('.fixture.') && word.test(text))
        .map(({ path }) => path.slice(RUNTIME.length))
      const mayName = [...NAMING, ...excepted.map(([path]) => path)]
      assert.deepEqual(
        naming.filter((path) => !mayName.includes(path)),
        [],
      )
      // An exception that nothing needs any more would let the name come back.
      assert.deepEqual(
        mayName.filter((path) => !naming.includes(path)),
        [],
      )
    })
  }

  test('what an operation works with is said by its room: only assembly has the whole of the runtime', () => {
    const builds = (path: string) => path.startsWith('assembly/') || !path.includes('/')
    const naming = sourceFiles([`${RUNTIME}**/*.ts`])
      .map(({ path, text }) => ({ path: path.slice(RUNTIME.length), text }))
      .filter(({ path, text }) => !isTest(path) && /\bPlatform\b/.test(text.replace(/^import [^']*'[^']*'$/gm, '')))
      .map(({ path }) => path)
    assert.ok(naming.some(builds), 'what assembly builds is not seen')
    assert.deepEqual(
      naming.filter((path) => !builds(path)),
      [],
    )
  })

  test('a file that only re-exports is an entry of its package', () => {
    const EXPORTED = /export\s+(?:type\s+)?(?:\*|\{[^}]*\})(?:\s+as\s+\w+)?\s+from\s+'[^']+'/g
    const isOnly = (text: string) =>
      text
        .replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '')
        .replace(EXPORTED, '')
        .trim() === ''
    const entries = globSync(['*/package.json', 'plugins/*/package.json'], { cwd: ROOT }).flatMap((file) => {
      const { exports = {} } = JSON.parse(readFileSync(join(ROOT, file), 'utf8')) as {
        readonly exports?: Readonly<Record<string, string>>
      }
      return Object.values(exports).map((to) => posix.join(posix.dirname(file), to))
    })
    const folders = '{sdk,engine,iceberg,plugins,conformance-tests,runtime/src}'
    const only = sourceFiles([`${folders}/**/*.ts`]).filter(({ text }) => isOnly(text))
    assert.ok(only.length > 3, 'the entries of packages are not seen')
    assert.deepEqual(
      only.map(({ path }) => path).filter((path) => !entries.includes(path)),
      [],
    )
  })

  test('only container.ts and the tokens know the dependency container', () => {
    const knowing = sourceFiles([`${RUNTIME}**/*.ts`]).filter((file) => packagesOf(file).includes('tsyringe'))
    const allowed = ['container.ts', 'assembly/tokens.ts', 'assembly/run-worker.ts'].map((name) => RUNTIME + name)
    assert.deepEqual(
      knowing.map((file) => file.path).filter((path) => !allowed.includes(path)),
      [],
    )
  })

  test('the SDK imports nothing but Node', () => {
    const allowed = (specifier: string, file: SourceFile) =>
      isTest(file.path) && (specifier === '@sluice/sdk' || specifier === 'fast-check')
    assert.deepEqual(strangers('sdk', allowed), [])
  })

  test('the engine imports the SDK and its drivers, and nothing of the runtime', () => {
    const { dependencies = {} } = packageJson('engine')
    const found = sourceFiles(['engine/**/*.ts'])
      .filter(({ path }) => !isTest(path))
      .flatMap((file) => [
        ...relativeTargets(file).filter((target) => !target.startsWith('engine/')),
        ...packagesOf(file).filter((specifier) => !(packageOf(specifier) in dependencies)),
      ])
    assert.deepEqual(found, [])
  })

  test('the tables import the engine, the SDK and their drivers, and nothing of the runtime', () => {
    const { dependencies = {} } = packageJson('iceberg')
    const found = sourceFiles(['iceberg/**/*.ts'])
      .filter(({ path }) => !isTest(path))
      .flatMap((file) => [
        ...relativeTargets(file).filter((target) => !target.startsWith('iceberg/')),
        ...packagesOf(file).filter((specifier) => !(packageOf(specifier) in dependencies)),
      ])
    assert.deepEqual(found, [])
  })

  test('of the tables, the format and object stores know no other part, and no part but its index the protocol', () => {
    const mayImport = { format: ['format', 'names.ts'], store: ['store'] }
    for (const [folder, allowed] of Object.entries(mayImport)) {
      const files = sourceFiles([`iceberg/src/${folder}/**/*.ts`]).filter(({ path }) => !isTest(path))
      assert.ok(files.length > 1, folder)
      const found = files.flatMap(relativeTargets).filter((to) => !allowed.includes(to.split('/')[2] ?? ''))
      assert.deepEqual(found, [], folder)
    }
    const knowing = sourceFiles(['iceberg/src/*.ts']).filter((file) =>
      relativeTargets(file).some((target) => target.startsWith('iceberg/src/protocol/')),
    )
    assert.deepEqual(
      knowing.map(({ path }) => path),
      ['iceberg/src/index.ts'],
    )
  })

  test('walls and the guard know no other part of the engine, and lineage the guard alone', () => {
    const mayImport = { walls: ['walls'], guard: ['guard'], lineage: ['lineage', 'guard'] }
    for (const [folder, allowed] of Object.entries(mayImport)) {
      const files = sourceFiles([`engine/src/${folder}/**/*.ts`]).filter(({ path }) => !isTest(path))
      assert.ok(files.length > 1, folder)
      const found = files.flatMap(relativeTargets).filter((to) => !allowed.includes(to.split('/')[2] ?? ''))
      assert.deepEqual(found, [], folder)
    }
  })

  for (const folder of [
    'lookup',
    'timeseries',
    'analytics',
    'realtime',
    'connectors',
    'compute',
    'dashboard',
    'event-bus',
    'object-store',
  ].map((name) => `plugins/${name}`)) {
    test(`${folder} imports the SDK, its declared drivers and itself`, () => {
      const { name, dependencies = {}, devDependencies = {} } = packageJson(folder)
      const forTests = ['@sluice/conformance', 'fast-check', ...Object.keys(devDependencies)]
      const allowed = (specifier: string, file: SourceFile) => {
        const wanted = packageOf(specifier)
        if (wanted === name) return true
        // Stores on PostgreSQL share how rows are secured there; nothing else of another plugin is reached into.
        if (wanted === '@sluice/lookup')
          return specifier.startsWith('@sluice/lookup/row-secured-postgresql') || isTest(file.path)
        // An engine outside and the store that it serves rows as are one server.
        if (folder === 'plugins/compute' && specifier === '@sluice/analytics/trino/statements') return true
        if (folder === 'plugins/connectors' && specifier === '@sluice/object-store/s3/checked-client') return true
        if (wanted.startsWith('@sluice/') && wanted !== '@sluice/sdk') return forTests.includes(wanted)
        return wanted in dependencies || forTests.includes(wanted)
      }
      assert.deepEqual(strangers(folder, allowed), [])
    })
  }
})
