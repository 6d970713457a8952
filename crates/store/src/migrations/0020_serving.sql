-- The database's own identity and the service that works on it, in one row.
CREATE TABLE serving (
    one BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    -- The identity that the folder of workspaces carries, too. None until a folder has it.
    database_id TEXT CHECK (length(database_id) = 36),
    -- The process that serves, or served last, and the identity of its data folder.
    process_id TEXT CHECK (length(process_id) = 36),
    folder_id TEXT CHECK (length(folder_id) = 36),
    CONSTRAINT serving_process_has_folder CHECK ((process_id IS NULL) = (folder_id IS NULL))
);
INSERT INTO serving (one) VALUES (1);
