import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { MadeUpTree } from './made-up-tree.ts'

/** What `src/a.ts` of that text reaches in a repository of many files, without itself and its package.json. */
function reached(text: string, more: Readonly<Record<string, string>> = {}): readonly string[] {
  using tree = new MadeUpTree({
    'package.json': '{ "name": "all", "workspaces": ["packages/*"] }',
    'packages/one/package.json': '{ "name": "@x/one", "exports": { ".": "./index.ts", "./part": "./part/index.ts" } }',
    'packages/one/index.ts': '',
    'packages/one/part/index.ts': '',
    'packages/two/package.json': '{ "name": "@x/one-more", "main": "main.js" }',
    'packages/two/main.js': '',
    'src/b.ts': '',
    'src/data/one.yaml': '',
    'src/data/deep/two.sql': '',
    'src/z.test.ts': '',
    'deploy/x/policy.json': '',
    'deploy/compose.yml': '',
    'deploy/run.sh': '',
    'deploy/templates/made.ts': "import '../../src/b.ts'",
    'src/a.ts': text,
    ...more,
  })
  const found = tree.graph().reachedFrom(['src/a.ts'])
  return found.filter((path) => path !== 'src/a.ts' && path !== 'package.json')
}

describe('what a file rests on', () => {
  it('counts what it imports, in every form', () => {
    for (const form of [
      "import { b } from './b.ts'",
      "import type { B } from './b.ts'",
      "export * from './b.ts'",
      "const b = await import('./b.ts')",
      "type B = typeof import('./b.ts')",
      "import '../src/b.ts'",
    ])
      assert.deepEqual(reached(form), ['src/b.ts'], form)
  })

  it('follows what that imports, in a circle too', () => {
    const more = { 'src/b.ts': "import './c.ts'", 'src/c.ts': "import './b.ts'; read('deploy/compose.yml')" }
    assert.deepEqual(reached("import './b.ts'", more), ['deploy/compose.yml', 'src/b.ts', 'src/c.ts'])
  })

  it('counts files that are named, from its own folder and from the root', () => {
    for (const form of [
      "spawn('node', ['./b.ts'])",
      "new URL('./b.ts', import.meta.url)",
      "new URL('b.ts', import.meta.url)",
      "join(import.meta.dirname, 'b.ts')",
      "join(root, 'src/b.ts')",
      "join(import.meta.dirname, '..', 'src', 'b.ts')",
      `fork(\`\${folder}/b.ts\`)`,
      "readFile('../../anywhere/../src/b.ts')",
    ])
      assert.deepEqual(reached(form), ['src/b.ts'], form)
  })

  it('counts what is joined to a place in the repository, of which single words are paths, too', () => {
    for (const form of [
      "const ROOT = join(import.meta.dirname, '..')\njoin(ROOT, 'deploy', 'run.sh')",
      "import { ROOT } from './elsewhere.ts'\nresolve(ROOT, 'deploy', 'run.sh')",
    ])
      assert.deepEqual(reached(form), ['deploy/run.sh'], form)
    assert.deepEqual(reached("join(dirname(import.meta.dirname), 'deploy', name)").length, 4)
    assert.deepEqual(reached("join(folder, 'deploy', 'run.sh')"), [])
  })

  it('counts all below a folder that is named, and what stands beside a value in a name', () => {
    const data = ['src/data/deep/two.sql', 'src/data/one.yaml']
    for (const form of [
      "join(import.meta.dirname, 'data')",
      "new URL('./data/', import.meta.url)",
      "new URL('data', import.meta.url)",
      "join(root, 'src/data')",
      `readFile(\`./data/\${name}.yaml\`)`,
      `readFile(\`../src/data/o\${rest}\`)`,
      `readFile(\`\${import.meta.dirname}/../src/data/\${name}\`)`,
    ])
      assert.deepEqual(reached(form), data, form)
  })

  it('counts what a glob matches', () => {
    assert.deepEqual(reached("glob('src/data/**/*.sql')"), ['src/data/deep/two.sql'])
    assert.deepEqual(reached("glob('./data/{one,three}.yaml')"), ['src/data/one.yaml'])
    assert.deepEqual(reached("accept('*/*')"), [])
  })

  it('counts packages that are named, with the file of the subpath', () => {
    const part = ['packages/one/package.json', 'packages/one/part/index.ts']
    for (const form of [
      "import '@x/one/part'",
      "{ plugins: ['@x/one/part'] }",
      `\`plugins:\n  - "@x/one/part"\n  - \${other}\``,
    ])
      assert.deepEqual(reached(form), part, form)
    assert.deepEqual(reached("'@x/one'"), ['packages/one/index.ts', 'packages/one/package.json'])
    assert.deepEqual(reached("'@x/one-more'"), ['packages/two/main.js', 'packages/two/package.json'])
    assert.deepEqual(reached("'@x/one-less'"), [])
  })

  it('follows packages that a configuration names, and files that a Python program names', () => {
    const more = {
      'deploy/settings.yaml': 'plugins:\n  - "@x/one"\n',
      'src/read.py': "import other\nopen('deploy/run.sh')",
      'src/other.py': '',
    }
    assert.deepEqual(reached("read('deploy/settings.yaml')", more), [
      'deploy/settings.yaml',
      'packages/one/index.ts',
      'packages/one/package.json',
    ])
    assert.deepEqual(reached("run('read.py')", more), ['deploy/run.sh', 'src/other.py', 'src/read.py'])
  })

  it('counts templates that it copies, and nothing that these need where they are copied to', () => {
    assert.deepEqual(reached("copy('../deploy/templates')"), ['deploy/templates/made.ts'])
  })

  it('counts no folder that it lies in, no comment, no single word and nothing that is not there', () => {
    for (const form of [
      "join(import.meta.dirname, '..')",
      "join(import.meta.dirname, '.')",
      "'../src'",
      "// see './b.ts'",
      "/* 'src/data' */",
      "f('deploy')",
      "join(elsewhere, 'deploy')",
      "'./c.ts'",
      "'/src/b.ts'",
      "import 'pg'",
    ])
      assert.deepEqual(reached(form), [], form)
  })

  it('counts the package.json that says how Node takes the file', () => {
    using tree = new MadeUpTree({ 'package.json': '{}', 'a/package.json': '{}', 'a/b/c.ts': '', 'd.ts': '' })
    assert.deepEqual(tree.graph().reachedFrom(['a/b/c.ts']), ['a/b/c.ts', 'a/package.json'])
    assert.deepEqual(tree.graph().reachedFrom(['d.ts']), ['d.ts', 'package.json'])
  })
})
