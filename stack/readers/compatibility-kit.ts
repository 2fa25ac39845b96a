/** Iceberg's own tests of REST catalogs, its "REST Compatibility Kit", from Maven, run by JUnit's launcher. */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { glob, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { installed } from '../cache.ts'
import { javaCommand } from '../java.ts'
import { runMaven } from '../maven.ts'

const ICEBERG = '1.10.0'
/** What the tests are in, by file, so that they are those that the list of refusals is about. */
const SHA256: Readonly<Record<string, string>> = {
  'iceberg-open-api-1.10.0-tests.jar': 'fa8e1ce4e0c689c2a069ad7ec16cec4c1ac7f97b55721683b27ad83bd27c016b',
  'iceberg-open-api-1.10.0-test-fixtures.jar': 'ec4dce1663933e3520227da8238a980d52b7eccac532c1953f337dc1e6ee597b',
  'iceberg-core-1.10.0-tests.jar': 'caa79473e760a6ea0740888832d85868359142640d34f472cd565763bb9b90c7',
  'iceberg-core-1.10.0.jar': '54091489dbdcb31b5a4514372abfc908a7b0be69f76e785f1e82279be4fbd6cc',
  'junit-platform-console-standalone-1.13.4.jar': '3fdfc37e29744a9a67dd5365e81467e26fbde0b7aa204e6f8bbe79eeaa7ae892',
}
/** group, artifact, version, classifier */
const JARS: readonly (readonly [string, string, string, string?])[] = [
  ['org.apache.iceberg', 'iceberg-open-api', ICEBERG, 'tests'],
  ['org.apache.iceberg', 'iceberg-open-api', ICEBERG, 'test-fixtures'],
  ['org.apache.iceberg', 'iceberg-core', ICEBERG, 'tests'],
  ['org.apache.iceberg', 'iceberg-api', ICEBERG, 'tests'],
  ['org.apache.iceberg', 'iceberg-core', ICEBERG],
  ['org.apache.hadoop', 'hadoop-client-api', '3.4.1'],
  ['org.apache.hadoop', 'hadoop-client-runtime', '3.4.1'],
  ['org.junit.platform', 'junit-platform-console-standalone', '1.13.4'],
  ['org.assertj', 'assertj-core', '3.27.3'],
  ['org.slf4j', 'slf4j-simple', '2.0.17'],
]
const COPY = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies'
const SUITE = 'org.apache.iceberg.rest.RESTCompatibilityKitSuite'
/** Hadoop's file systems do not run on Java 24 and later. */
const JAVA = [17, 21] as const
const TIMEOUT_MS = 240_000

export interface KitCatalog {
  /** Without `/v1`. */
  readonly url: string
  readonly warehouse: string
  readonly token: string
}

export interface Outcome {
  /** `CatalogTests.testAppend()`; a test with parameters has a line for each. */
  readonly test: string
  readonly state: 'passed' | 'skipped' | 'failed'
  /** What it failed with, as XML has it; empty where it did not. */
  readonly failure: string
}

/** @param folder for the reports; made where it is not there */
export async function runCompatibilityKit(catalog: KitCatalog, folder: string): Promise<readonly Outcome[]> {
  const [home, java] = await Promise.all([kitHome(), javaCommand(...JAVA)])
  const settings = {
    'rck.local': 'false',
    'rck.requires-namespace-create': 'true',
    'rck.overrides-requested-location': 'true',
    'org.slf4j.simpleLogger.defaultLogLevel': 'error',
    uri: catalog.url,
    warehouse: catalog.warehouse,
    token: catalog.token,
  }
  const flags = Object.entries(settings).map(([name, value]) => `-D${name}=${value}`)
  const launcher = ['-cp', join(home, '*'), 'org.junit.platform.console.ConsoleLauncher', 'execute']
  const args = ['-Xmx600m', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', ...flags, ...launcher]
  await mkdir(folder, { recursive: true })
  const wanted = ['--select-class', SUITE, '--reports-dir', folder, '--details=none']
  // It ends with a failure where one test has failed: the reports say which.
  const printed = await promisify(execFile)(java, [...args, ...wanted], { timeout: TIMEOUT_MS, cwd: folder }).catch(
    (error: unknown) => String(error),
  )
  const outcomes = await outcomesIn(folder)
  if (outcomes.length === 0) throw new Error(`the kit ran no test: ${JSON.stringify(printed).slice(-4_000)}`)
  return outcomes
}

async function outcomesIn(folder: string): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = []
  for await (const file of glob(join(folder, '*.xml'))) {
    for (const part of (await readFile(file, 'utf8')).split('<testcase ').slice(1)) outcomes.push(outcomeOf(part))
  }
  return outcomes
}

function outcomeOf(part: string): Outcome {
  const attribute = (name: string) => new RegExp(`\\b${name}="([^"]*)"`).exec(part)?.[1] ?? ''
  const test = `${attribute('classname').replace(/^.*RESTCompatibilityKit/, '')}.${/^name="([^"]*)"/.exec(part)?.[1] ?? ''}`
  if (part.includes('<skipped')) return { test, state: 'skipped', failure: '' }
  const failed = /<(?:failure|error)\b/.exec(part)
  if (failed === null) return { test, state: 'passed', failure: '' }
  return { test, state: 'failed', failure: part.slice(failed.index, failed.index + 2_000) }
}

function kitHome(): Promise<string> {
  return installed(`iceberg-compatibility-kit-${ICEBERG}`, async (folder, signal) => {
    const dependencies = JARS.map(
      ([group, artifact, version, classifier]) =>
        `<dependency><groupId>${group}</groupId><artifactId>${artifact}</artifactId><version>${version}</version>${
          classifier === undefined ? '' : `<classifier>${classifier}</classifier>`
        }</dependency>`,
    )
    const project = [
      '<project><modelVersion>4.0.0</modelVersion>',
      '<groupId>stack</groupId><artifactId>kit</artifactId><version>1</version>',
      `<dependencies>${dependencies.join('')}</dependencies></project>`,
    ]
    const file = join(folder, 'pom.xml')
    await writeFile(file, project.join('\n'))
    await runMaven(['--file', file, COPY, `-DoutputDirectory=${folder}`, '-DincludeScope=runtime'], signal)
    for (const [name, sha256] of Object.entries(SHA256)) {
      const found = createHash('sha256')
        .update(await readFile(join(folder, name)))
        .digest('hex')
      if (found !== sha256) throw new Error(`${name} is not the file that was expected`)
    }
  })
}
