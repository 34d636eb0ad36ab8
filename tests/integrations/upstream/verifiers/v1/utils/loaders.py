def resolve_env_config(data):
    return data
