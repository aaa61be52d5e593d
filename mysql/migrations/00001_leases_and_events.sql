-- +goose Up
-- Names and tokens are bytes: no collation folds their case, pads their end or refuses an emoji.
-- Times are DATETIME(6) in UTC: TIMESTAMP ends in 2038 and follows the session's time zone, and fewer digits round.
CREATE TABLE IF NOT EXISTS fencepost_leases (
    lease_name VARBINARY(200) NOT NULL,
    owner_token VARBINARY(255) NOT NULL,
    fence_token BIGINT NOT NULL,
    leased_until DATETIME(6) NULL,
    holder VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    ttl_ms BIGINT NOT NULL DEFAULT 0,
    acquired_at DATETIME(6) NULL,
    renewed_at DATETIME(6) NULL,
    wanted TINYINT UNSIGNED NOT NULL DEFAULT 0,
    taken_over TINYINT UNSIGNED NOT NULL DEFAULT 0,
    preempted_by VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    preempt_reason VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    PRIMARY KEY (lease_name),
    -- What fenced writes lock. It must not contain a column that a renewal changes: see the guard.
    UNIQUE KEY fencepost__leases_fence (lease_name, fence_token, owner_token)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS fencepost_events (
    id BIGINT NOT NULL AUTO_INCREMENT,
    lease_name VARBINARY(200) NOT NULL,
    kind VARCHAR(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    fence_token BIGINT NOT NULL,
    holder VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    actor VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    reason VARCHAR(1000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    at DATETIME(6) NOT NULL,
    PRIMARY KEY (id),
    KEY fencepost__events_lease (lease_name, id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
