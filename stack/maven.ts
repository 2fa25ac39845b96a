/** Files from Maven's repository, by its own client. */
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CACHE_FOLDER, runTool } from './cache.ts'

const COPY = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy'
const REPOSITORY = join(CACHE_FOLDER, 'maven')

/** The client in its own process, with what it has downloaded before. */
export async function runMaven(args: readonly string[], signal: AbortSignal): Promise<void> {
  await mkdir(REPOSITORY, { recursive: true })
  await runTool('mvn', ['--batch-mode', '--quiet', `-Dmaven.repo.local=${REPOSITORY}`, ...args], { signal })
}

/** Downloads `group:artifact:version:type` into the folder, verified by the client, and returns its path there. */
export async function mavenFile(coordinates: string, folder: string, signal: AbortSignal): Promise<string> {
  const [group = '', artifact = '', version = '', type = 'jar'] = coordinates.split(':')
  await runMaven([COPY, `-Dartifact=${coordinates}`, `-DoutputDirectory=${folder}`], signal)
  // The client keeps a copy of its own, which for a server's archive is not worth its place.
  await rm(join(REPOSITORY, group.replaceAll('.', '/'), artifact, version), { recursive: true, force: true })
  return join(folder, `${artifact}-${version}.${type}`)
}

const COPY_ALL = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies'

/** Downloads a jar, `group:artifact:version`, with all that it depends on into the folder. */
export async function mavenClasspath(coordinates: string, folder: string, signal: AbortSignal): Promise<void> {
  const [group, artifact, version] = coordinates.split(':')
  const dependency = `<groupId>${group}</groupId><artifactId>${artifact}</artifactId><version>${version}</version>`
  const project = [
    '<project><modelVersion>4.0.0</modelVersion>',
    '<groupId>stack</groupId><artifactId>classpath</artifactId><version>1</version>',
    `<dependencies><dependency>${dependency}</dependency></dependencies></project>`,
  ]
  const file = join(folder, 'pom.xml')
  await writeFile(file, project.join('\n'))
  await runMaven(['--file', file, COPY_ALL, `-DoutputDirectory=${folder}`, '-DincludeScope=runtime'], signal)
}
