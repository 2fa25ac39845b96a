/** Access rules of the brokers, as the client writes them. */
import type { Acl, AclFilter } from '@platformatic/kafka'
import type { KafkaSettings } from './settings.ts'

const TENANT = '{tenant}'

export type Kafka = typeof import('@platformatic/kafka')

/** May come in consumer groups whose names begin so. */
export function groupRight(kafka: Kafka, principal: string, prefix: string): Acl {
  return {
    resourceType: kafka.ResourceTypes.GROUP,
    resourceName: prefix,
    resourcePatternType: kafka.ResourcePatternTypes.PREFIXED,
    principal,
    host: '*',
    operation: kafka.AclOperations.READ,
    permissionType: kafka.AclPermissionTypes.ALLOW,
  }
}

/** Of one topic by its whole name. */
export function topicRight(kafka: Kafka, principal: string, topic: string, operation: Acl['operation']): Acl {
  return {
    resourceType: kafka.ResourceTypes.TOPIC,
    resourceName: topic,
    resourcePatternType: kafka.ResourcePatternTypes.LITERAL,
    principal,
    host: '*',
    operation,
    permissionType: kafka.AclPermissionTypes.ALLOW,
  }
}

/** Every rule of a resource, or of one principal there. */
export function ofResource(
  kafka: Kafka,
  resourceType: Acl['resourceType'],
  resourceName: string,
  pattern: 'LITERAL' | 'PREFIXED',
  principal: string | null = null,
): AclFilter {
  return {
    resourceType,
    resourceName,
    resourcePatternType: kafka.ResourcePatternTypes[pattern],
    principal,
    host: null,
    operation: kafka.AclOperations.ANY,
    permissionType: kafka.AclPermissionTypes.ANY,
  }
}

/**
 * Whether the login of a tenant of that slug is the one that reads another tenant's rows in clear: with
 * `User:{tenant}-cleared`, that of `acme-cleared` is the cleared one of `acme`.
 */
export function isAnothersClearedLogin(
  { reader_principal: reader, cleared_principal: cleared }: KafkaSettings,
  slug: string,
): boolean {
  if (reader === undefined || cleared === undefined) return false
  const login = reader.replaceAll(TENANT, slug)
  const at = cleared.indexOf(TENANT)
  return Array.from({ length: login.length }, (_, index) => login.slice(at, at + index + 1)).some(
    (other) => other !== slug && cleared.replaceAll(TENANT, other) === login,
  )
}
