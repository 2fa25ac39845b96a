/** Compiles one workspace: JavaScript, declarations, and the files beside them that are read at run time. */
import { execFile } from 'node:child_process'
import { cp, glob, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'

const ROOT = join(import.meta.dirname, '..')
const TESTS = [
  '**/*.test.ts',
  '**/*.test-data.ts',
  '**/test-data.ts',
  '**/*.fixture.ts',
  '**/templates/**',
  '**/node_modules',
  '**/dist',
]

/** Read by the code at run time, from beside its source. */
const DATA_FILES = ['**/*.yaml', '**/*.pem', '**/*.key', '**/*.html', '**/templates/**']

/** Fills `<folder>/dist`, which mirrors the folder. Throws with the compiler's words where a type is wrong. */
export async function compile(folder: string): Promise<void> {
  const work = await mkdtemp(join(tmpdir(), 'sluice-compile-'))
  const dist = join(folder, 'dist')
  try {
    const output = join(work, 'output')
    await runCompiler(join(work, 'tsconfig.json'), folder, output)
    await rm(dist, { recursive: true, force: true })
    await cp(join(output, relative(ROOT, folder)), dist, { recursive: true })
  } finally {
    await rm(work, { recursive: true, force: true })
  }
  await pointDeclarations(dist)
  await copyData(folder, dist)
}

/** Declarations alone, without comments, in a folder below `work`; returns that folder. */
export async function emitDeclarations(folder: string, work: string): Promise<string> {
  const output = join(work, 'output')
  const only = { emitDeclarationOnly: true, removeComments: true }
  await runCompiler(join(work, 'tsconfig.json'), folder, output, only)
  return join(output, relative(ROOT, folder))
}

/** The compiler follows imports into other workspaces' sources; what it makes of those is left behind. */
async function runCompiler(
  config: string,
  folder: string,
  outDir: string,
  only: Readonly<Record<string, boolean>> = {},
): Promise<void> {
  const options = {
    extends: join(ROOT, 'tsconfig.json'),
    compilerOptions: {
      noEmit: false,
      noEmitOnError: true,
      allowImportingTsExtensions: false,
      declaration: true,
      rootDir: ROOT,
      outDir,
      typeRoots: [join(ROOT, 'node_modules/@types')],
      ...only,
    },
    include: [folder],
    exclude: TESTS.map((pattern) => join(folder, pattern)),
  }
  await writeFile(config, JSON.stringify(options))
  const compiler = createRequire(import.meta.url).resolve('typescript/package.json')
  const program = join(dirname(compiler), 'bin/tsc')
  try {
    await promisify(execFile)(process.execPath, [program, '-p', config], { maxBuffer: 16 << 20 })
  } catch (error) {
    throw new Error(`${relative(ROOT, folder)} does not compile:\n${(error as { stdout?: string }).stdout ?? error}`)
  }
}

/** The compiler rewrites imports in JavaScript alone; declarations would name files that are not packed. */
async function pointDeclarations(dist: string): Promise<void> {
  for await (const file of glob('**/*.d.ts', { cwd: dist })) {
    const text = await readFile(join(dist, file), 'utf8')
    await writeFile(join(dist, file), text.replaceAll(/((?:from |import\()['"]\.[^'"]*)\.ts(['"])/g, '$1.js$2'))
  }
}

async function copyData(folder: string, dist: string): Promise<void> {
  const found = glob(DATA_FILES, { cwd: folder, exclude: ['**/node_modules/**', 'dist/**'], withFileTypes: true })
  for await (const entry of found) {
    if (!entry.isFile()) continue
    const target = join(dist, relative(folder, entry.parentPath))
    await mkdir(target, { recursive: true })
    await cp(join(entry.parentPath, entry.name), join(target, entry.name))
  }
}
