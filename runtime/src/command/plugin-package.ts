/** `sluice plugin new` and `sluice plugin check`. */
import { cp, readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { basename, join, relative, resolve, sep } from 'node:path'
import type { Config } from '../config.ts'
import { findPlugin, loadPlugin } from '../plugins/loader.ts'
import { proofRules } from '../plugins/proof-rules.ts'
import { isService, loadFound } from '../plugins/services.ts'
import { UsageError } from './arguments.ts'
import { makeFolder } from './failures.ts'

const TEMPLATES = join(import.meta.dirname, 'templates')
/** The checkout, where the command runs out of one and not as an installed package. */
const CHECKOUT = join(import.meta.dirname, '../../..')
const NAME = /^[a-z][a-z0-9-]{0,60}$/

/** What the templates call themselves. */
const TEMPLATE_NAMES = { store: 'my-store', connector: 'my-connector' } as const

/** Makes a package of a plugin that works, to be changed into one's own; refuses a folder that holds anything. */
export async function newPlugin(folder: string, kind: keyof typeof TEMPLATE_NAMES): Promise<string> {
  const target = resolve(folder)
  const name = basename(target)
  if (!NAME.test(name)) throw new UsageError(`"${name}" is no name of a plugin: small letters, digits and hyphens`)
  await makeFolder(target)
  if ((await readdir(target)).length > 0) throw new UsageError(`${folder} is not empty`)
  for (const file of await readdir(join(TEMPLATES, kind))) {
    await cp(join(TEMPLATES, kind, file), join(target, file))
    const text = await readFile(join(target, file), 'utf8')
    await writeFile(join(target, file), text.replaceAll(TEMPLATE_NAMES[kind], name))
  }
  // npm leaves files of that name out of packages, so the template goes by another.
  await rename(join(target, 'gitignore'), join(target, '.gitignore'))
  return [
    `${folder} is a ${kind} that works, in memory. Next:`,
    `  cd ${relative(process.cwd(), target) || '.'}`,
    ...(await installSteps(target)).map((step) => `  ${step}`),
    '  npm test',
    `Then replace ${kind === 'store' ? 'memory.ts' : 'source.ts'} by the real thing.`,
  ].join('\n')
}

/**
 * How the package comes by the SDK and the suite. A checkout is ahead of what any registry has: inside of it they are
 * found as they are, and for a folder elsewhere they are packed.
 */
async function installSteps(target: string): Promise<readonly string[]> {
  const suite = await readFile(join(CHECKOUT, 'conformance-tests/package.json')).catch(() => null)
  if (suite === null) return ['npm install']
  if (target.startsWith(CHECKOUT + sep)) return []
  return [
    `npm --prefix "${CHECKOUT}" pack -w sdk -w conformance-tests --pack-destination "$PWD"`,
    'npm install --no-save ./sluice-*.tgz',
  ]
}

/** Loads a plugin as the runtime would, and says what it would make of it. */
export async function checkPlugin(specifier: string, config: Config): Promise<unknown> {
  const path = /^[./]/.test(specifier) ? specifier : await pathOrPackage(specifier)
  const found = await findPlugin(path, process.cwd())
  if (isService(found.declared)) {
    const { packageName, packageVersion, plugin, sdkRange, proof } = await loadFound(path, found)
    return {
      package: `${packageName} ${packageVersion}`,
      plugin: `${plugin.kind} ${plugin.name} ${plugin.version}`,
      sdk: sdkRange,
      secrets: secretPointers(plugin.settingsSchema),
      proof: proof.message,
    }
  }
  const loaded = await loadPlugin(path, process.cwd(), proofRules(config))
  const { plugin, proof } = loaded
  return {
    package: `${loaded.packageName} ${loaded.packageVersion}`,
    plugin: `${plugin.kind} ${plugin.type}/${plugin.name} ${plugin.version}`,
    sdk: loaded.sdkRange,
    secrets: secretPointers(plugin.settingsSchema),
    on: proof.on,
    off: proof.off,
    proof: proof.message,
    certificates: proof.certificates,
  }
}

/** A folder of that name stands before a package of that name. */
async function pathOrPackage(specifier: string): Promise<string> {
  const isFolder = await readdir(specifier).then(
    () => true,
    () => false,
  )
  return isFolder ? `./${specifier}` : specifier
}

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>
  readonly 'x-secret'?: boolean
}

function secretPointers(schema: Schema, pointer = ''): readonly string[] {
  const inner = Object.entries(schema.properties ?? {})
  const own = schema['x-secret'] ? [pointer] : []
  return [...own, ...inner.flatMap(([name, part]) => secretPointers(part, `${pointer}/${name}`))]
}
